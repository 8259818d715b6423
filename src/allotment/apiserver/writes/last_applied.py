"""The annotation in which ``kubectl apply`` keeps what it applied, for those who move between its two forms of apply.

Only the manager named ``kubectl`` is treated so: its first server-side apply does not conflict with what its
client-side apply had set, and the annotation follows what it applies on the server.
"""

from __future__ import annotations

from typing import Final

import msgspec

from allotment.apiserver.writes.apply_schema import Structure, UnkeyedError
from allotment.apiserver.writes.comparison import compared
from allotment.apiserver.writes.field_sets import Fields, difference
from allotment.apiserver.writes.ownership import claimed
from allotment.apiserver.writes.type_check import misfits
from allotment.model.trees import Tree

KUBECTL: Final = "kubectl"
ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"

_MOST_BYTES: Final = 256 * 1024


def unchanged(structure: Structure, live: Tree, version: str) -> Fields:
    """The fields of the annotation that still have the value they were given; empty if there is no telling."""
    text = _annotations(live).get(ANNOTATION)
    if not text:
        return {}
    try:
        applied = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    if type(applied) is not dict or applied.get("apiVersion") != version or misfits(structure, applied):
        return {}
    try:
        fields = claimed(structure, applied)
        for part in compared(structure, applied, live):
            if fields and part:
                fields = difference(fields, part)
    except UnkeyedError:
        return {}
    return fields or {}


def synced(tree: Tree, applied: Tree) -> Tree:
    """The object with what was applied in its annotation, if it has that annotation and there is room."""
    annotations = _annotations(tree)
    if not annotations.get(ANNOTATION):
        return tree
    metadata = applied.get("metadata") or {}
    others = {name: value for name, value in _annotations(applied).items() if name != ANNOTATION}
    # Go's encoder ends a document with a line break, and kubectl compares to the letter.
    plain = {**applied, "metadata": {**metadata, "annotations": others} if "annotations" in metadata else metadata}
    text = _json(plain) + "\n"
    size = sum(
        len(name.encode()) + len(str(value).encode()) for name, value in annotations.items() if name != ANNOTATION
    )
    if size + len(ANNOTATION) + len(text.encode()) > _MOST_BYTES:
        kept = {name: value for name, value in annotations.items() if name != ANNOTATION}
    else:
        kept = {**annotations, ANNOTATION: text}
    if kept == annotations:
        return tree
    return {**tree, "metadata": {**tree["metadata"], "annotations": kept}}


def _annotations(tree: Tree) -> Tree:
    return (tree.get("metadata") or {}).get("annotations") or {}


def _json(tree: Tree) -> str:
    text = msgspec.json.encode(tree, order="deterministic").decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
