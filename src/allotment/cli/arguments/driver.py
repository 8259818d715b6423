"""The arguments of ``allot driver``."""

from __future__ import annotations

import argparse

from allotment.cli.arguments.shared_options import Commands, add_way, lazy

_RUN = "publish this machine's devices to a cluster, and prepare them for its kubelet"
_VERIFY = "drive any driver as a kubelet would, and print what it does right and wrong"
_MODE = "how to publish them: nvidia: full, dynamic-mig, shared, consumable-shares=N, vfio; amd: @v1, @v0, auto, vfio"

_SIMULATE = (
    "hardware to simulate on a machine without, as --fleet has it: 8xa100-40gb/dynamic-mig; real kubelets take it"
)

_VERIFY_MORE = """\
Drive any driver as a kubelet would, and print what it does right and wrong. It
uses devices that no claim has, by claims in a namespace of its own, and leaves
nothing behind.
"""


def add_driver(commands: Commands) -> None:
    """``run`` and ``verify``."""
    driver = commands.add_parser("driver", help="DRA drivers: run one of ours on a node, verify any")
    driver.set_defaults(help_of=driver, incomplete=True)
    inner = driver.add_subparsers(title="commands", metavar="COMMAND")

    run = inner.add_parser("run", help=_RUN)
    add_node(run)
    add_way(run)
    run.set_defaults(run=lazy("driver", "run_driver"))

    verify = inner.add_parser("verify", help=_VERIFY, description=_VERIFY_MORE)
    verify.add_argument("socket", metavar="SOCKET", help="either of its sockets: NAME-reg.sock or dra.sock")
    verify.add_argument("--command", metavar="WORDS", help="start the driver so, to restart and kill it as well")
    verify.add_argument("--node", metavar="NAME", help="the node it runs on (default: that of its slices)")
    verify.add_argument("--device-class", metavar="NAME", help="ask for devices of this class (default: any)")
    verify.add_argument(
        "--cdi-root", action="append", metavar="FOLDER", help="where CDI specs are, may be repeated (/etc/cdi,"
        " /var/run/cdi)",
    )  # fmt: skip
    verify.add_argument("-o", "--output", choices=("json",), metavar="json", help="for a program")
    add_way(verify)
    verify.set_defaults(run=lazy("driver_verify", "run_verify"))


def add_node(run: argparse.ArgumentParser) -> None:
    """Whose devices, and where their node has its folders."""
    run.add_argument("vendor", choices=("amd", "nvidia"), metavar="VENDOR", help="nvidia or amd")
    run.add_argument("--mode", default="", metavar="MODE", help=_MODE)
    run.set_defaults(otherwise="name the way to the node's cluster with --kubeconfig; in a pod there is one already")
    run.add_argument("--simulate", default="", metavar="HARDWARE", help=_SIMULATE)
    run.add_argument("--node", metavar="NAME", help="the node's name (default: NODE_NAME, else that of this machine)")
    run.add_argument("--driver-root", default="/", metavar="FOLDER", help="where the vendor's files are (%(default)s)")
    run.add_argument("--driver-root-on-host", metavar="FOLDER", help="the same as the host sees it, from a container")
    run.add_argument("--kubelet-root", default="/var/lib/kubelet", metavar="FOLDER", help="(%(default)s)")
    run.add_argument("--cdi-root", default="/var/run/cdi", metavar="FOLDER", help="for CDI specs (%(default)s)")
    run.add_argument("--pod-uid", default="", metavar="UID", help="of its own pod, for rolling updates (POD_UID)")
    run.add_argument("--metadata", action="store_true", help="have programs read of their devices in files (KEP-5304)")
