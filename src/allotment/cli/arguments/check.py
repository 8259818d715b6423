"""The arguments of ``allot check`` and ``allot rule``."""

from __future__ import annotations

from typing import Final

from allotment.cli.arguments.shared_options import Commands, add_output, add_target, lazy

FAIL_ON: Final = ("error", "warning", "note", "never")
FORMATS: Final = ("text", "concise", "json", "sarif", "github")

_CHECK: Final = """\
What is wrong with manifests before a cluster sees them: shape and version, CEL,
names that no driver publishes, meanings that are not what the author thinks;
and with --fleet or --cluster, whether they would get their devices.

  allot check                            every manifest in this folder and below
  allot check a.yaml --fix               mend what can mean one thing only
  allot check a.yaml --unsafe --diff     what mending the rest would change
  allot check --fleet dgx-a100-40gb:2    would they fit on this hardware?
  allot rule S102                        what a rule is about
"""
_CHECK_MORE: Final = """\
A comment silences a finding, at the end of its line or alone above it:
  # allot: ignore[S102]
and above the first field those of a document, or of the whole file:
  # allot: ignore-document[V301]   # allot: ignore-file[V]

Options may stand in allotment.toml under [check], or in pyproject.toml under
[tool.allotment.check].

Exit codes: 0 nothing as bad as --fail-on says, 1 findings, 2 bad input, 3 an
error of Allotment's own.
"""
_DRIVER_HELP: Final = "the release of a driver that is meant (default: the newest known): gpu.nvidia.com=25.8"


def add_check(commands: Commands) -> None:
    """``check`` and ``rule``."""
    check = commands.add_parser(
        "check", help="what is wrong with manifests, and mend it", description=_CHECK, epilog=_CHECK_MORE,
    )  # fmt: skip
    check.add_argument("paths", nargs="*", metavar="FILE", help="files, folders, - for standard input (default: .)")
    check.set_defaults(run=lazy("check.command"))

    mend = check.add_argument_group("mending")
    mend.add_argument("--fix", action="store_true", help="write what can only have been meant in one way")
    mend.add_argument("--unsafe", action="store_true", help="with --fix or --diff: also where the meaning is guessed")
    mend.add_argument("--diff", action="store_true", help="show what --fix would change, and change nothing")

    meant = add_target(check)
    meant.add_argument("--driver", action="append", default=[], metavar="NAME=RELEASE", help=_DRIVER_HELP)
    meant.add_argument(
        "--driver-gates", action="append", default=[], metavar="A=true,B=false",
        help="feature gates of drivers that differ from their defaults: MPSSupport=true",
    )  # fmt: skip

    rules = check.add_argument_group("which rules")
    rules.add_argument("--select", action="append", metavar="CODES", help="only these: S, C2, V301, flat-request")
    rules.add_argument("--ignore", action="append", metavar="CODES", help="not these")
    rules.add_argument("--fail-on", choices=FAIL_ON, help="from which level on the exit code is 1 (default: error)")

    other = check.add_argument_group("input and output")
    other.add_argument("-o", "--output", choices=FORMATS, metavar="FORMAT", help=f"{', '.join(FORMATS)}")
    where = other.add_mutually_exclusive_group()
    where.add_argument("--config", metavar="FILE", help="allotment.toml or pyproject.toml (default: the nearest)")
    where.add_argument("--isolated", action="store_true", help="read no configuration")
    other.add_argument("--stdin-filename", metavar="NAME", help="what standard input is called in what is printed")
    other.add_argument(
        "--force-exclude", action="store_true",
        help="treat files that are named like those found in folders: leave out what is excluded or no manifest",
    )  # fmt: skip

    rule = commands.add_parser("rule", help="the rules of check, or one of them in full")
    rule.add_argument("rule", nargs="?", metavar="RULE", help="code or name: S102, flat-request; or a family: S, cel")
    add_output(rule, ("text", "json"))
    rule.set_defaults(run=lazy("rule"))
