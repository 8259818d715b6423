"""The arguments of ``allot tutorial``."""

from __future__ import annotations

from typing import Final

from allotment.cli.arguments.shared_options import Commands, lazy

DEFAULT_FOLDER: Final = "allot-tutorial"
_TUTORIAL: Final = """\
First steps with GPUs in Kubernetes, in ten minutes: request a GPU with 80 GB,
share one, use a MIG device, find out why a pod is pending, repair a manifest.

A lab with simulated nodes runs in this process. Each step is checked when its
objects change. Enter the commands at the prompt or in another terminal, with
allot or kubectl. If the folder exists, the tutorial goes on where it was left.
"""
_MORE: Final = """\
Without a terminal, every step is done automatically, as with --yes.

Exit codes: 0 all steps are done, 1 not all, 2 invalid input, 3 internal error.
"""


def add_tutorial(commands: Commands) -> None:
    """Add ``tutorial``."""
    tutorial = commands.add_parser(
        "tutorial", help="learn the first steps in a lab, with a check of each", description=_TUTORIAL, epilog=_MORE
    )
    tutorial.add_argument(
        "--dir", default=DEFAULT_FOLDER, metavar="DIR",
        help="folder for the manifests and the progress (default: %(default)s)",
    )  # fmt: skip
    tutorial.add_argument("-y", "--yes", action="store_true", help="do every step automatically")
    tutorial.add_argument("--reset", action="store_true", help="begin again; edited manifests are kept as NAME.old")
    tutorial.set_defaults(run=lazy("tutorial.command"), default_dir=DEFAULT_FOLDER)
