"""The arguments of ``allot rbac``."""

from __future__ import annotations

from typing import Final

from allotment.cli.arguments.shared_options import Commands, add_connection, add_output, add_renamed, lazy

_RBAC: Final = """\
Print the minimal permissions that a component of Allotment needs, as manifests
with the reason for each rule; or check whether an account has them.

  allot rbac                     permissions of the read-only tools
  allot rbac scheduler | kubectl apply -f -
                                 a service account for the scheduler, with roles
  allot rbac --list              list the components
  allot rbac reader --check      check your own permissions
  allot rbac scheduler --check --as system:serviceaccount:gpu:scheduler
                                 check the permissions of a service account

Exit codes: 0 success, 1 permissions are missing (--check).
"""
_DRIVER: Final = "for the component driver: name of the DRA driver (default: gpu.nvidia.com, gpu.amd.com); repeatable"
_AS: Final = "with --check: user to check (default: yourself); service accounts: system:serviceaccount:NAMESPACE:NAME"


def add_rbac(commands: Commands) -> None:
    """Add ``rbac``."""
    parser = commands.add_parser(
        "rbac", help="print or check the permissions of each component", description=_RBAC,
    )  # fmt: skip
    parser.set_defaults(run=lazy("rbac"))
    parser.add_argument("parts", nargs="*", metavar="COMPONENT", help="reader, scheduler, driver, … (default: reader)")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--list", action="store_true", help="list the components, and exit")
    action.add_argument("--check", action="store_true", help="check which permissions are missing in the cluster")
    parser.add_argument(
        "-n", "--namespace", default="", metavar="NAME",
        help="namespace of the service account, its Lease and its reports (default: kube-system)",
    )  # fmt: skip
    add_renamed(
        parser, "--service-account", "--account", default="", metavar="NAME",
        help="name of the service account (default: allotment-COMPONENT)",
    )  # fmt: skip
    parser.add_argument("--driver", action="append", default=[], metavar="NAME", help=_DRIVER)
    parser.add_argument("--as", dest="user", default="", metavar="USER", help=_AS)
    add_connection(parser)
    add_output(parser, ("yaml", "json"))
