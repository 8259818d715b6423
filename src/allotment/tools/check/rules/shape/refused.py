"""S109: what the API server refuses an object for, where no other rule says more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from allotment.model.loading import Document
from allotment.model.loading.marks import Path, split_path
from allotment.model.validation.errors import ErrorType, FieldError
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.corrections import correction
from allotment.tools.check.objects.field_shapes import written
from allotment.tools.check.objects.gates import gates_in_the_way
from allotment.tools.check.objects.placeholders import is_placeholder
from allotment.tools.check.objects.validation_errors import refused_anyway, refused_for
from allotment.tools.check.rule import Found, Rule
from allotment.tools.views import at, mapping

#: Errors that other rules explain: by the field, or by the words.
_OTHERS: Final = (
    re.compile(r"devices\.requests\[\d+\](\.firstAvailable\[\d+\])?\.name$"),  # request-without-name
    re.compile(r"devices\.requests\[\d+\]\.adminAccess$"),  # admin-access-label
)
_UNKNOWN_REQUEST: Final = "must be the name of a request in the claim"


def _find(bundle: Bundle) -> Iterator[Found]:
    """The API server's own errors, in its own words."""
    for document, manifest in bundle.manifests.items():
        errors = refused_for(bundle, manifest)
        if errors and any(True for _ in gates_in_the_way(bundle, document)):
            anyway = refused_anyway(bundle, manifest)
            errors = [error for error in errors if error in anyway]
        for error in errors:
            if not _is_told(document, error):
                yield _found(document, written(document, split_path(error.path)), error)


def _found(document: Document, path: Path, error: FieldError) -> Found:
    value = at(document.tree, path)
    if is_placeholder(value):
        message = f'"{value}" is to be filled in: as it stands, the API server refuses the {document.kind}'
        return Found(document, path, message, level="note")
    return Found(document, path, str(error).rstrip("."), fix=correction(document, path, error))


def _is_told(document: Document, error: FieldError) -> bool:
    if error.detail.startswith(_UNKNOWN_REQUEST) or any(one.search(error.path) for one in _OTHERS):
        return True
    value = at(document.tree, written(document, split_path(error.path)))
    if isinstance(value, str):
        if error.path.endswith(".deviceClassName") and value:
            return True  # unknown-class
        if error.path.endswith((".matchAttribute", ".distinctAttribute")) and "/" not in value:
            return True  # constraint-nobody-publishes
        if error.path.endswith("].request") and "/" in value:
            return True  # no-such-request
    # The rules for CEL look at what is written, unless it is too long to be looked at.
    if error.path.endswith(".cel.expression") and error.type is not ErrorType.TOO_LONG:
        return isinstance(at(document.tree, written(document, split_path(error.path))), str)
    pool = at(document.tree, ("spec", "pool"))
    missing = error.path in ("spec.pool.name", "spec.pool.resourceSliceCount")
    return missing and error.path.rpartition(".")[2] not in mapping(pool)


_DEVICE = """\
- name: gpu-0
  attributes:
    cudaComputeCapability:
      version: "{}"
"""

RULE = Rule(
    code="S109",
    name="refused",
    family="shape",
    level="error",
    summary="the API server refuses the object: what it says",
    why=(
        "Beyond types and names of fields, the API server validates what an object says: how many of a thing there may"
        " be, what excludes what, what a name may look like. It answers 422 Unprocessable Entity with the path and the"
        " reason. The same rules are applied here, with the paths of v1, whichever version was written."
    ),
    bad=examples.resource_slice(_DEVICE.format("8.0"), node="worker-2"),
    good=examples.resource_slice(_DEVICE.format("8.0.0"), node="worker-2"),
    find=_find,
    fixable="safe or unsafe",
    see="https://github.com/kubernetes/kubernetes/tree/master/pkg/apis/resource/validation",
)
