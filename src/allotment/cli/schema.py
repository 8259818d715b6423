"""``allot schema``: prints a JSON Schema of claims and classes for editors."""

from __future__ import annotations

from argparse import Namespace

from allotment.cli.output.console import open_screen
from allotment.reference.json_schema import schema


def run(arguments: Namespace) -> int:
    """Print the schema."""
    open_screen().data(schema(*arguments.kinds, kube=arguments.kube_version, identifier=arguments.id), "json")
    return 0
