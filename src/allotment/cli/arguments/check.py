"""The arguments of ``allot check`` and ``allot rule``."""

from __future__ import annotations

from typing import Final

from allotment.cli.arguments.shared_options import Commands, add_output, add_renamed, add_target, lazy

FAIL_ON: Final = ("error", "warning", "note", "never")
FORMATS: Final = ("text", "concise", "json", "sarif", "github")

_CHECK: Final = """\
Find mistakes in manifests before they reach a cluster: schema and version, CEL,
names that no driver publishes, and settings that do not mean what they seem to.
With --fleet or --cluster, also check whether the workloads get their devices.

  allot check                               check this directory, recursively
  allot check a.yaml --fix                  apply the safe fixes
  allot check a.yaml --unsafe-fixes --diff  show what all fixes would change
  allot check --fleet dgx-a100-40gb:2       also check the fit on this hardware
  allot rule S102                           explain a rule
"""
_CHECK_MORE: Final = """\
A comment at the end of a line, or alone above it, suppresses a finding:
  # allot: ignore[S102]
Above the first field, a comment can apply to the whole document or file:
  # allot: ignore-document[V301]   # allot: ignore-file[V]

Options can be set in allotment.toml under [check], or in pyproject.toml under
[tool.allotment.check].

Exit codes: 0 no finding at or above --fail-on, 1 findings, 2 invalid input,
3 internal error.
"""
_DRIVER: Final = "release of a driver: gpu.nvidia.com=25.8 (default: the newest known release)"


def add_check(commands: Commands) -> None:
    """Add ``check`` and ``rule``."""
    check = commands.add_parser(
        "check", help="find and fix mistakes in manifests", description=_CHECK, epilog=_CHECK_MORE,
    )  # fmt: skip
    check.add_argument(
        "paths", nargs="*", metavar="FILE", help="files, directories, or - for standard input (default: .)"
    )
    check.set_defaults(run=lazy("check.command"))

    fixes = check.add_argument_group("fixes")
    fixes.add_argument("--fix", action="store_true", help="apply the fixes that are safe")
    add_renamed(
        fixes, "--unsafe-fixes", "--unsafe", action="store_true",
        help="with --fix or --diff: include fixes that guess your intent",
    )  # fmt: skip
    fixes.add_argument("--diff", action="store_true", help="show what --fix would change, without changing it")

    target = add_target(check)
    target.add_argument("--driver", action="append", default=[], metavar="NAME=RELEASE", help=_DRIVER)
    target.add_argument(
        "--driver-gates", action="append", default=[], metavar="A=true,B=false",
        help="driver feature gates that differ from the drivers' defaults: MPSSupport=true",
    )  # fmt: skip

    rules = check.add_argument_group("rule selection")
    rules.add_argument(
        "--select", action="append", metavar="CODES", help="rules to run: S, C2, V301, flat-request (default: all)"
    )
    rules.add_argument("--ignore", action="append", metavar="CODES", help="rules to skip")
    rules.add_argument("--fail-on", choices=FAIL_ON, help="lowest severity that makes the exit code 1 (default: error)")

    files = check.add_argument_group("input and output")
    files.add_argument(
        "-o", "--output", choices=FORMATS, metavar="FORMAT",
        help=f"output format: {', '.join(FORMATS[:-1])} or {FORMATS[-1]}",
    )  # fmt: skip
    config = files.add_mutually_exclusive_group()
    config.add_argument(
        "--config",
        metavar="FILE",
        help="configuration file: allotment.toml or pyproject.toml (default: the nearest one)",
    )
    config.add_argument("--isolated", action="store_true", help="ignore all configuration files")
    files.add_argument("--stdin-filename", metavar="NAME", help="file name to report for standard input")
    files.add_argument(
        "--force-exclude", action="store_true",
        help="also apply exclusions to files named on the command line",
    )  # fmt: skip

    rule = commands.add_parser("rule", help="list the rules of check, or explain one")
    rule.add_argument(
        "rule", nargs="?", metavar="RULE", help="code or name: S102, flat-request; or a family: S, cel (default: all)"
    )
    add_output(rule, ("text", "json"))
    rule.set_defaults(run=lazy("rule"))
