"""The arguments of ``allot doctor``."""

from __future__ import annotations

from typing import Final

from allotment.cli.arguments.shared_options import (
    Commands,
    add_connection,
    add_feature_gates,
    add_kube_version,
    add_output,
    add_renamed,
    lazy,
)

_DOCTOR: Final = """\
Find problems with a cluster's devices, drivers and claims, and with the pending
pods that need them. Each finding has evidence and a remedy. Read-only.

  allot doctor                          the lab, or the current context
  allot doctor --context NAME           another running cluster
  allot doctor --cluster snapshot.yaml  a snapshot, which has less information
  allot doctor --select D5              only the checks whose codes start with D5
  allot doctor --list                   list the checks
"""
#: The answer to options of kubectl that restrict the namespace.
_ALL_NAMESPACES: Final = "omit it: all namespaces share the devices, so all of them are examined"
_MORE: Final = """\
Exit codes: 0 no errors (possibly warnings), 1 errors, 2 invalid input, 3
internal error.
"""


def add_doctor(commands: Commands) -> None:
    """Add ``doctor``."""
    parser = commands.add_parser(
        "doctor", help="find problems with a cluster's devices, drivers and claims", description=_DOCTOR, epilog=_MORE,
    )  # fmt: skip
    parser.set_defaults(
        run=lazy("doctor"), missing="no cluster specified",
        otherwise="specify a snapshot with --cluster FILE or a context with --context, or run allot up",
        instead={"-f": "use --cluster FILE", "--filename": "use --cluster FILE", "--check": "use --select CODE",
            "-n": _ALL_NAMESPACES, "--namespace": _ALL_NAMESPACES, "-A": _ALL_NAMESPACES},
    )  # fmt: skip
    parser.add_argument("--cluster", action="append", nargs="+", default=[], metavar="FILE", help="cluster snapshot")
    add_connection(parser)
    add_renamed(
        parser, "--select", "--only", action="append", default=[], metavar="CODES",
        help="checks to run: D501,D3 (default: all)",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="list the checks, and exit")
    add_kube_version(parser)
    add_feature_gates(parser)
    add_output(parser, ("wide", "json", "yaml"))
