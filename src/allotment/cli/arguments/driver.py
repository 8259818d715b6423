"""The arguments of ``allot driver``."""

from __future__ import annotations

import argparse

from allotment.cli.arguments.shared_options import Commands, add_connection, add_renamed, lazy

_RUN = "publish this machine's devices to a cluster and prepare them for the kubelet"
_VERIFY = "test any DRA driver by calling it as a kubelet does"
_MODE = "device mode: nvidia: full, dynamic-mig, shared, consumable-shares=N, vfio; amd: @v1, @v0, auto, vfio"

_SIMULATE = "hardware to simulate, in the syntax of --fleet: 8xa100-40gb/dynamic-mig; works with a real kubelet"

_VERIFY_MORE = """\
Test any DRA driver: call it as a kubelet does, and report what passes and what
fails. The tests use only unallocated devices, through claims in a temporary
namespace, and remove everything that they created.
"""


def add_driver(commands: Commands) -> None:
    """Add ``driver run`` and ``driver verify``."""
    driver = commands.add_parser("driver", help="run Allotment's DRA drivers on a node, or test any DRA driver")
    driver.set_defaults(help_of=driver, incomplete=True)
    inner = driver.add_subparsers(title="commands", metavar="COMMAND")

    run = inner.add_parser("run", help=_RUN)
    add_node(run)
    add_connection(run)
    run.set_defaults(run=lazy("driver", "run_driver"))

    verify = inner.add_parser("verify", help=_VERIFY, description=_VERIFY_MORE)
    verify.add_argument("socket", metavar="SOCKET", help="one of the driver's sockets: NAME-reg.sock or dra.sock")
    verify.add_argument(
        "--command",
        metavar="COMMAND",
        help="command that starts the driver; enables the tests that restart and kill it",
    )
    add_renamed(
        verify,
        "--node-name",
        "--node",
        metavar="NAME",
        help="node that the driver runs on (default: the node of its ResourceSlices)",
    )
    verify.add_argument("--device-class", metavar="NAME", help="DeviceClass to request (default: any)")
    verify.add_argument(
        "--cdi-root", action="append", metavar="DIR",
        help="directory of CDI specs; repeatable (default: /etc/cdi, /var/run/cdi)",
    )  # fmt: skip
    verify.add_argument("-o", "--output", choices=("json",), metavar="FORMAT", help="output format: json")
    add_connection(verify)
    verify.set_defaults(run=lazy("driver_verify", "run_verify"))


def add_node(run: argparse.ArgumentParser) -> None:
    """Add vendor, mode and the paths on the node."""
    run.add_argument("vendor", choices=("amd", "nvidia"), metavar="VENDOR", help="nvidia or amd")
    run.add_argument("--mode", default="", metavar="MODE", help=_MODE)
    run.set_defaults(otherwise="specify the node's cluster with --kubeconfig; in a pod, the service account is used")
    run.add_argument("--simulate", default="", metavar="HARDWARE", help=_SIMULATE)
    add_renamed(
        run,
        "--node-name",
        "--node",
        metavar="NAME",
        help="name of the node (default: $NODE_NAME, or else the hostname)",
    )
    run.add_argument(
        "--driver-root", default="/", metavar="DIR", help="root directory of the vendor's driver (default: %(default)s)"
    )
    run.add_argument(
        "--driver-root-on-host", metavar="DIR", help="in a container: path of the same directory on the host"
    )
    run.add_argument(
        "--kubelet-root", default="/var/lib/kubelet", metavar="DIR", help="root directory of the kubelet "
        "(default: %(default)s)",
    )  # fmt: skip
    run.add_argument(
        "--cdi-root", default="/var/run/cdi", metavar="DIR", help="directory for CDI specs (default: %(default)s)"
    )
    run.add_argument(
        "--pod-uid", default="", metavar="UID", help="UID of the driver's pod, for rolling updates (default: $POD_UID)"
    )
    run.add_argument("--metadata", action="store_true", help="write device metadata files into containers (KEP-5304)")
