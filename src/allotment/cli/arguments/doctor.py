"""The arguments of ``allot doctor``."""

from __future__ import annotations

from typing import Final

from allotment.cli.arguments.shared_options import Commands, add_gates, add_output, add_release, add_way, lazy

_DOCTOR: Final = """\
What is wrong with a cluster's devices, drivers, claims and the pods that wait
for them: each finding with what was seen and what to do. Nothing is written.

  allot doctor                          the lab, or the current context
  allot doctor --context NAME           a cluster that runs
  allot doctor --cluster snapshot.yaml  a snapshot; less is known of it
  allot doctor --only D5                only checks whose codes begin so
  allot doctor --list                   what is looked at
"""
#: What people type who are used to kubectl.
_WHOLE: Final = "leave it out: devices are shared by all namespaces, so all are looked at"
_MORE: Final = """\
Exit codes: 0 no errors (there may be warnings), 1 errors, 2 bad input, 3 an
error of Allotment's own.
"""


def add_doctor(commands: Commands) -> None:
    """``doctor``."""
    parser = commands.add_parser(
        "doctor", help="what is wrong with a cluster's devices, drivers and claims", description=_DOCTOR, epilog=_MORE,
    )  # fmt: skip
    parser.set_defaults(
        run=lazy("doctor"), missing="no cluster is given",
        otherwise="give a snapshot with --cluster FILE, name a context with --context, or run allot up",
        instead={"-f": "say --cluster FILE", "--filename": "say --cluster FILE", "--check": "say --only CODE",
            "-n": _WHOLE, "--namespace": _WHOLE, "-A": _WHOLE},
    )  # fmt: skip
    parser.add_argument(
        "--cluster", action="append", nargs="+", default=[], metavar="FILE", help="a snapshot of the cluster"
    )
    add_way(parser)
    parser.add_argument("--only", action="append", default=[], metavar="CODES", help="D501,D3: these checks only")
    parser.add_argument("--list", action="store_true", help="the checks, and nothing else")
    add_release(parser)
    add_gates(parser)
    add_output(parser, ("wide", "json", "yaml"))
