"""``allot schema``: prints a JSON Schema of claims and classes for editors."""

from __future__ import annotations

from argparse import Namespace

from allotment.api.releases import features
from allotment.cli.output.console import open_screen
from allotment.errors import InputError
from allotment.fleet.errors import suggestion
from allotment.model.serialization import to_json
from allotment.tools.schema import DEFAULT_KINDS, UnknownKindError, schema


def run(arguments: Namespace) -> int:
    """Print the schema."""
    try:
        tree = schema(features(arguments.kube_version, ()), arguments.kinds or DEFAULT_KINDS, arguments.id)
    except UnknownKindError as error:
        raise InputError(
            f"Kubernetes {arguments.kube_version} has no manifest kind {error.kind!r}",
            suggestion(error.kind, error.known) or f"for example {', '.join(DEFAULT_KINDS)}, Pod",
        ) from None
    open_screen().out.write(to_json(tree) + "\n")
    return 0
