"""The last-applied-configuration annotation of ``kubectl apply``, when a user switches to server-side apply.

This applies only to the manager ``kubectl``: its first server-side apply does not conflict with the fields that its
client-side apply has set, and the annotation is updated with each server-side apply.
"""

from __future__ import annotations

from typing import Final

import msgspec

from allotment.apiserver.writes.apply_schema import Structure, UnkeyedError
from allotment.apiserver.writes.comparison import compare
from allotment.apiserver.writes.field_sets import Fields, difference
from allotment.apiserver.writes.ownership import to_field_set
from allotment.apiserver.writes.type_check import schema_errors
from allotment.model.trees import Tree

KUBECTL: Final = "kubectl"
ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"

_MAX_BYTES: Final = 256 * 1024


def unchanged_fields(structure: Structure, live: Tree, version: str) -> Fields:
    """The fields of the annotation that still have its value; empty if the annotation cannot be used."""
    text = _annotations(live).get(ANNOTATION)
    if not text:
        return {}
    try:
        applied = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    if type(applied) is not dict or applied.get("apiVersion") != version or schema_errors(structure, applied):
        return {}
    try:
        fields = to_field_set(structure, applied)
        for part in compare(structure, applied, live):
            if fields and part:
                fields = difference(fields, part)
    except UnkeyedError:
        return {}
    return fields or {}


def with_updated_annotation(tree: Tree, applied: Tree) -> Tree:
    """The object with ``applied`` in its annotation, if it has that annotation and the size limit permits."""
    annotations = _annotations(tree)
    if not annotations.get(ANNOTATION):
        return tree
    metadata = applied.get("metadata") or {}
    others = {name: value for name, value in _annotations(applied).items() if name != ANNOTATION}
    # Go's encoder ends a document with a line break, and kubectl compares the exact text.
    configuration = {
        **applied,
        "metadata": {**metadata, "annotations": others} if "annotations" in metadata else metadata,
    }
    text = _json(configuration) + "\n"
    size = sum(
        len(name.encode()) + len(str(value).encode()) for name, value in annotations.items() if name != ANNOTATION
    )
    if size + len(ANNOTATION) + len(text.encode()) > _MAX_BYTES:
        new_annotations = {name: value for name, value in annotations.items() if name != ANNOTATION}
    else:
        new_annotations = {**annotations, ANNOTATION: text}
    if new_annotations == annotations:
        return tree
    return {**tree, "metadata": {**tree["metadata"], "annotations": new_annotations}}


def _annotations(tree: Tree) -> Tree:
    return (tree.get("metadata") or {}).get("annotations") or {}


def _json(tree: Tree) -> str:
    text = msgspec.json.encode(tree, order="deterministic").decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
