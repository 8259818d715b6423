"""``allot version``: prints the version, and the Kubernetes releases that it models."""

from __future__ import annotations

from argparse import Namespace

from allotment import __version__
from allotment.cli.output.console import open_screen
from allotment.model.releases import RELEASES
from allotment.reference.installation import versions


def run(arguments: Namespace) -> int:
    """Print the version and the releases of Kubernetes that are modelled."""
    screen = open_screen()
    if arguments.output:
        screen.data(versions(), arguments.output)
        return 0
    screen.line(f"allot {__version__}")
    screen.line(f"models Kubernetes {', '.join(RELEASES)}")
    return 0
