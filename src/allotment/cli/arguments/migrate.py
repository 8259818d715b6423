"""The arguments of ``allot migrate``."""

from __future__ import annotations

from typing import Final

from allotment.cli.arguments.shared_options import Commands, add_renamed, add_target, lazy

STRATEGIES: Final = ("auto", "class", "claims")
MATCH_ATTRIBUTES: Final = ("pcieRoot", "numaNode")

_MIGRATE: Final = """\
Migrate workloads that request GPUs from a device plugin (nvidia.com/gpu, MIG
profiles, shares, fractions; amd.com/gpu; gpu.intel.com/*) to DRA: decide for
each workload, give the reason, and write the new manifests.

  allot migrate app.yaml                     show decisions and changes
  allot migrate k8s/ -d migrated             write new manifests to a directory
  allot migrate app.yaml --in-place          change the file
  allot migrate app.yaml --fleet t4-4x-pcie  compare the fit before and after
  helm template … | allot migrate - -d out   migrate a rendered chart
"""
_MORE: Final = """\
Exit codes: 0 everything is migrated and fits as before, 1 something cannot be
migrated or no longer fits, 2 invalid input, 3 internal error.
"""
_STRATEGY: Final = (
    "class: keep requests that a DeviceClass can serve under its extended resource name; claims: replace all requests "
    "with claims; auto: use claims where they have an advantage (default: %(default)s)"
)


def add_migrate(commands: Commands) -> None:
    """Add ``migrate``."""
    migrate = commands.add_parser(
        "migrate", help="migrate manifests from device plugins to claims", description=_MIGRATE, epilog=_MORE,
    )  # fmt: skip
    migrate.add_argument("paths", nargs="+", metavar="FILE", help="files, directories, or - for standard input")
    migrate.set_defaults(run=lazy("migrate.command"))

    output = migrate.add_argument_group("output")
    destination = output.add_mutually_exclusive_group()
    destination.add_argument(
        "-d",
        "--output-dir",
        metavar="DIR",
        help="write all files, changed or not, to this directory; existing files are not overwritten",
    )
    destination.add_argument("--in-place", action="store_true", help="change the files themselves")
    destination.add_argument("--diff", action="store_true", help="print only a unified diff; write nothing")
    output.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", metavar="FORMAT",
        help="output format: text or json (default: %(default)s)",
    )  # fmt: skip

    decisions = migrate.add_argument_group("decisions")
    add_renamed(decisions, "--strategy", "--to", choices=STRATEGIES, default="auto", metavar="STRATEGY", help=_STRATEGY)
    add_renamed(
        decisions, "--match-attribute", "--same", choices=MATCH_ATTRIBUTES, metavar="ATTRIBUTE",
        help="attribute that all GPUs of a container must share: pcieRoot or numaNode",
    )  # fmt: skip
    decisions.add_argument(
        "--shares", type=int, default=0, metavar="N",
        help="number of pods that share a GPU, if no file or label specifies it",
    )  # fmt: skip

    add_target(migrate)
