"""A JSON Schema of claims and classes, for editors."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from allotment.api.objects.releases import features
from allotment.errors import InputError
from allotment.fleet.errors import suggestion
from allotment.model import DEFAULT_RELEASE
from allotment.tools.schema import DEFAULT_KINDS, UnknownKindError
from allotment.tools.schema import schema as schema_of


def schema(*kinds: str, kube: str = DEFAULT_RELEASE, identifier: str = "") -> dict[str, Any]:
    """Return a JSON Schema of some kinds, by default of claims, templates and classes.

    ``identifier``: its ``$id``, if it is served at a URL. Raises InputError for an unknown kind.
    """
    try:
        return deepcopy(schema_of(features(kube, ()), kinds or DEFAULT_KINDS, identifier))  # parts of it are constants
    except UnknownKindError as error:
        raise InputError(
            f"Kubernetes {kube} has no manifest kind {error.kind!r}",
            suggestion(error.kind, error.known) or f"for example {', '.join(DEFAULT_KINDS)}, Pod",
        ) from None
