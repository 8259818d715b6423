"""The arguments of ``allot up``, ``down``, ``status`` and ``lab``."""

from __future__ import annotations

import argparse

from allotment.cli.arguments.autoscale import add_consolidation, add_simulated_cloud
from allotment.cli.arguments.shared_options import (
    Commands,
    add_catalog,
    add_feature_gates,
    add_fixed_kube_version,
    add_output,
    add_renamed,
    lazy,
)

_FLEET = (
    "nodes: [NAME=][GPUSx]HARDWARE[:NODES][/MODE],… (see allot fleet list; default: the nodes of the last run, or one"
    " node for each vendor)"
)
_DISABLE = "component to leave out because you run your own: scheduler, controllers, garbage, …; repeatable"
_RUNTIME = (
    "process: run the commands of --images as processes on this machine (trusted manifests only); oci: run them with"
    " crun; simulated: run nothing (default: %(default)s)"
)
_UNKNOWN_COMMANDS = (
    "what simulated Jobs and init containers do with commands that the lab does not know (default: %(default)s)"
)
_RUNTIME_CONFIG = (
    "API versions to serve, as for kube-apiserver: api/all=true, api/beta=true, GROUP/VERSION=true or"
    " GROUP/VERSION/RESOURCE=true, separated by commas; repeatable (default: those that the release serves by default)"
)
_ROOTS = "directory with a kubelet root for each node (DIR/NODE), where drivers in other processes register"


def add_lab(commands: Commands) -> None:
    """Add ``up``, ``down``, ``status`` and ``lab``."""
    up = commands.add_parser("up", help="start a lab: a Kubernetes control plane with simulated GPU nodes")
    up.add_argument("--fleet", action="append", nargs="+", default=[], metavar="SPEC", help=_FLEET)
    up.add_argument(
        "--name", default="default", metavar="NAME", help="lab name; several labs can run at the same time "
        "(default: %(default)s)",
    )  # fmt: skip
    storage = up.add_mutually_exclusive_group()
    storage.add_argument("--ephemeral", action="store_true", help="store the cluster only in memory")
    add_renamed(
        storage,
        "--data-dir",
        "--data",
        metavar="DIR",
        help="directory to store the cluster in (default: under the XDG data directory)",
    )
    up.add_argument(
        "--port", type=int, default=0, metavar="N", help="port of the API server (default: 6443 if it is free)"
    )
    add_renamed(
        up, "--bind-address", "--host", default="127.0.0.1", metavar="ADDRESS",
        help="address that the API server listens on (default: %(default)s)",
    )  # fmt: skip
    up.add_argument(
        "--http", action="store_true", help="serve plain HTTP: anyone who can reach the port is an administrator"
    )
    up.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="kubeconfig file to write the context to (default: the file that kubectl uses)",
    )
    up.add_argument(
        "--speed",
        type=float,
        default=1.0,
        metavar="X",
        help="factor by which simulated durations are shortened (default: %(default)s)",
    )
    add_renamed(up, "--disable", "--without", action="append", default=[], metavar="COMPONENT", help=_DISABLE)
    up.add_argument("--runtime", choices=("simulated", "process", "oci"), default="simulated", help=_RUNTIME)
    up.add_argument("--images", metavar="FILE", help="with --runtime process or oci: the command to run for each image")
    up.add_argument("--unknown-commands", choices=("fail", "succeed"), default="fail", help=_UNKNOWN_COMMANDS)
    up.add_argument("--kubelet-roots", metavar="DIR", help=_ROOTS)
    scaling = up.add_argument_group("autoscaler")
    scaling.add_argument(
        "--autoscale", action="store_true", help="provision machines for pending pods and release idle ones"
    )
    add_catalog(scaling)
    add_simulated_cloud(scaling)
    add_consolidation(scaling)
    up.add_argument("--web", action="store_true", help="also serve the page of allot web, and open it in the browser")
    up.add_argument("--detach", action="store_true", help="run in the background; return when the lab is ready")
    up.add_argument("--log", help=argparse.SUPPRESS)  # set by --detach for the process that it starts
    add_fixed_kube_version(up)
    add_feature_gates(up)
    up.add_argument("--runtime-config", action="append", default=[], metavar="KEY=VALUE,…", help=_RUNTIME_CONFIG)
    up.set_defaults(run=lazy("up"))

    down = commands.add_parser("down", help="stop a lab")
    labs = down.add_mutually_exclusive_group()
    labs.add_argument("name", nargs="?", default="default", metavar="NAME", help="lab name (default: %(default)s)")
    labs.add_argument("--all", action="store_true", help="stop all your labs")
    down.set_defaults(run=lazy("down"), instead={"--name": "pass the name as an argument: allot down NAME"})

    status = commands.add_parser("status", help="list the running labs")
    add_output(status, ("wide", "json", "yaml"))
    status.set_defaults(run=lazy("status"))

    lab = commands.add_parser("lab", help="check, repair, back up and restore the data of a lab that is not running")
    lab.set_defaults(help_of=lab, incomplete=True)
    inner = lab.add_subparsers(title="commands", metavar="COMMAND")
    check = inner.add_parser("check", help="check all files; exit code 1 if one is damaged")
    check.add_argument(
        "--repair",
        action="store_true",
        help="replace a damaged database by its readable part, and keep the damaged one",
    )
    backup = inner.add_parser("backup", help="save objects, keys and fleet to a file that only you can read")
    backup.add_argument("file", metavar="FILE", help="file to create")
    restore = inner.add_parser("restore", help="restore a backup to a new lab")
    restore.add_argument("file", metavar="FILE", help="file that allot lab backup created")
    for command, function in ((check, "run_check"), (backup, "run_backup"), (restore, "run_restore")):
        place = command.add_mutually_exclusive_group()
        place.add_argument("--name", default="default", metavar="NAME", help="lab name (default: %(default)s)")
        place.add_argument("--data-dir", metavar="DIR", help="directory of the lab's data, as for allot up")
        command.set_defaults(run=lazy("lab", function))
