"""The arguments of ``allot up``, ``down`` and ``status``."""

from __future__ import annotations

import argparse

from allotment.cli.arguments.autoscale import add_cloud, add_consolidation
from allotment.cli.arguments.shared_options import (
    Commands,
    add_catalog,
    add_gates,
    add_output,
    add_release_unasked,
    lazy,
)

_FLEET = "its machines: [NAME=][GPUSx]HARDWARE[:NODES][/MODE],… (default: what it had, or one of each vendor)"
_WITHOUT = "a program that does not run here, because your own does its work: scheduler, controllers, garbage, …"
_RUNTIME = "process: what --images names runs as programs of this machine (for manifests that you trust); oci: crun"
_ROOTS = "a folder for each node's kubelet (FOLDER/NODE), where drivers of other processes register"


def add_lab(commands: Commands) -> None:
    """``up``, ``down`` and ``status``."""
    up = commands.add_parser("up", help="start a lab: a Kubernetes control plane, simulated GPU nodes")
    up.add_argument("--fleet", action="append", nargs="+", default=[], metavar="SPEC", help=_FLEET)
    up.add_argument("--name", default="default", metavar="NAME", help="several labs run side by side by their names")
    where = up.add_mutually_exclusive_group()
    where.add_argument("--ephemeral", action="store_true", help="keep everything in memory")
    where.add_argument("--data", metavar="FOLDER", help="where the cluster is kept (default: by name, in XDG data)")
    up.add_argument("--port", type=int, default=0, metavar="N", help="port of the API (default: 6443, or a free one)")
    up.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="who can reach it (%(default)s: only you)")
    up.add_argument("--http", action="store_true", help="plain HTTP: whoever reaches the port is the administrator")
    up.add_argument("--kubeconfig", metavar="FILE", help="where the context goes (default: kubectl's own file)")
    up.add_argument("--speed", type=float, default=1.0, metavar="X", help="simulated durations pass X times as fast")
    up.add_argument("--without", action="append", default=[], metavar="PROGRAM", help=_WITHOUT)
    up.add_argument("--runtime", choices=("simulated", "process", "oci"), default="simulated", help=_RUNTIME)
    up.add_argument(
        "--images", metavar="FILE", help="with --runtime process or oci: which command stands for which image"
    )
    up.add_argument("--kubelet-roots", metavar="FOLDER", help=_ROOTS)
    scaling = up.add_argument_group("an autoscaler")
    scaling.add_argument("--autoscale", action="store_true", help="machines for pods that wait, and back again")
    add_catalog(scaling)
    add_cloud(scaling)
    add_consolidation(scaling)
    up.add_argument("--detach", action="store_true", help="return when it is ready, and leave it running")
    up.add_argument("--log", help=argparse.SUPPRESS)  # given by --detach to the process that it starts
    add_release_unasked(up)
    add_gates(up)
    up.set_defaults(run=lazy("up"))

    down = commands.add_parser("down", help="stop a lab")
    which = down.add_mutually_exclusive_group()
    which.add_argument("name", nargs="?", default="default", metavar="NAME", help="of this name (%(default)s)")
    which.add_argument("--all", action="store_true", help="all labs of yours")
    down.set_defaults(run=lazy("down"), instead={"--name": "name it without: allot down NAME"})

    status = commands.add_parser("status", help="the labs that run")
    add_output(status, ("wide", "json", "yaml"))
    status.set_defaults(run=lazy("status"))
