"""The arguments of ``allot rbac``."""

from __future__ import annotations

from typing import Final

from allotment.cli.arguments.shared_options import Commands, add_output, add_way, lazy

_RBAC: Final = """\
The permissions that a part of Allotment needs, and nothing more, as manifests
with the reason of each rule; or whether somebody has them.

  allot rbac                     for the tools that only read
  allot rbac scheduler | kubectl apply -f -
                                 an account for the scheduler, and its roles
  allot rbac --list              the parts
  allot rbac reader --check      may I use these tools here?
  allot rbac scheduler --check --as system:serviceaccount:gpu:scheduler
                                 may this account run the scheduler?

Exit codes: 0, or with --check 1 if something is missing.
"""
_DRIVER: Final = "with part driver: one that speaks of devices of this driver (default: gpu.nvidia.com, gpu.amd.com)"
_AS: Final = "with --check: of this user (accounts: system:serviceaccount:NAMESPACE:NAME), instead of yourself"


def add_rbac(commands: Commands) -> None:
    """``rbac``."""
    parser = commands.add_parser(
        "rbac", help="the permissions that each part needs, as manifests; whether you have them", description=_RBAC,
    )  # fmt: skip
    parser.set_defaults(run=lazy("rbac"))
    parser.add_argument("parts", nargs="*", metavar="PART", help="reader (what is meant without), scheduler, driver, …")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="only name the parts")
    what.add_argument("--check", action="store_true", help="ask the cluster what of it is missing")
    parser.add_argument(
        "-n", "--namespace", default="", metavar="NAME", help="of the account, its Lease and records (kube-system)"
    )
    parser.add_argument("--account", default="", metavar="NAME", help="its name (default: allotment-PART)")
    parser.add_argument("--driver", action="append", default=[], metavar="NAME", help=_DRIVER)
    parser.add_argument("--as", dest="user", default="", metavar="USER", help=_AS)
    add_way(parser)
    add_output(parser, ("yaml", "json"))
