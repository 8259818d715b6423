"""Events in their two groups: one store of objects in the core shape, shown under other names in events.k8s.io.

A rule of thumb of upstream's: an event written with ``eventTime`` is of the newer kind and must name its controller
and action; one without is taken as it comes.
"""

from __future__ import annotations

from typing import Any, Final

Tree = dict[str, Any]

NEW_VERSION: Final = "events.k8s.io/v1"
#: Core name -> name in events.k8s.io.
_RENAMED: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_BACK: Final = {new: old for old, new in _RENAMED.items()}


def to_new(tree: Tree, version: str) -> Tree:
    """A stored event as events.k8s.io shows it."""
    if tree.get("apiVersion") == NEW_VERSION:
        return tree
    return {_RENAMED.get(name, name): value for name, value in tree.items()} | {"apiVersion": NEW_VERSION}


def from_new(tree: Tree, version: str) -> Tree:
    """An event written to events.k8s.io, as stored."""
    if tree.get("apiVersion") == "v1":
        return tree
    return {_BACK.get(name, name): value for name, value in tree.items()} | {"apiVersion": "v1"}
