"""The arguments of ``allot migrate``."""

from __future__ import annotations

from typing import Final

from allotment.cli.arguments.shared_options import Commands, add_target, lazy

WAYS: Final = ("auto", "class", "claims")
SAME: Final = ("pcieRoot", "numaNode")

_MIGRATE: Final = """\
What becomes of workloads that ask a device plugin for GPUs (nvidia.com/gpu, MIG
profiles, shares, fractions; amd.com/gpu; gpu.intel.com/*): for each a decision
and its reason, and the new manifests.

  allot migrate app.yaml                     decide, and show what would change
  allot migrate k8s/ -d migrated             write the new manifests to a folder
  allot migrate app.yaml --in-place          change the file itself
  allot migrate app.yaml --fleet t4-4x-pcie  does it fit, before and after?
  helm template … | allot migrate - -d out   what a chart renders
"""
_MORE: Final = """\
Exit codes: 0 everything is decided and fits as before, 1 something cannot be
migrated or fits no longer, 2 bad input, 3 an error of Allotment's own.
"""
_TO_HELP: Final = (
    "class: what a DeviceClass can serve under its old name stays as it is; claims: everything gets claims; "
    "auto: claims where they gain something (default)"
)


def add_migrate(commands: Commands) -> None:
    """``migrate``."""
    migrate = commands.add_parser(
        "migrate", help="from device plugins to claims: decisions and manifests", description=_MIGRATE, epilog=_MORE,
    )  # fmt: skip
    migrate.add_argument("paths", nargs="+", metavar="FILE", help="files, folders, - for standard input")
    migrate.set_defaults(run=lazy("migrate.command"))

    written = migrate.add_argument_group("what is written")
    where = written.add_mutually_exclusive_group()
    where.add_argument(
        "-d", "--output-dir", metavar="DIR", help="write all files there, changed or not; none may be there yet"
    )
    where.add_argument("--in-place", action="store_true", help="change the files themselves")
    where.add_argument("--diff", action="store_true", help="only the diff, for patch; nothing is written")
    written.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", metavar="FORMAT", help="text or json"
    )

    how = migrate.add_argument_group("how")
    how.add_argument("--to", choices=WAYS, default="auto", metavar="WAY", help=_TO_HELP)
    how.add_argument(
        "--same", choices=SAME, metavar="ATTRIBUTE",
        help="several GPUs of a container must share this: pcieRoot or numaNode",
    )  # fmt: skip
    how.add_argument(
        "--shares", type=int, default=0, metavar="N", help="how many pods share a GPU, where no file or label says it"
    )

    add_target(migrate)
