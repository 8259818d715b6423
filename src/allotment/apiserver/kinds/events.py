"""Events in their two groups: one store of objects in the core shape, shown under other names in events.k8s.io.

A rule of thumb of upstream's: an event written with ``eventTime`` is of the newer kind and must name its controller
and action; one without is taken as it comes by the core group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from allotment.apiserver.kinds.kind import Errors, Rules, Write
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import immutable, invalid, required
from allotment.model.validation.gotext import size

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
_CONTROLLER: Final = "reportingController"
_FIXED: Final = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type", "eventTime",
    "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip
_STRAY: Final = "does not match event.namespace"
_MOST: Final = 128
_MOST_NOTE: Final = 1024
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


def _event(tree: Tree, write: Write, controller_at: str = "reportingComponent") -> Errors:
    """What every event must meet, in either group."""
    about = (tree.get("involvedObject") or {}).get("namespace") or ""
    own = tree["metadata"].get("namespace") or ""
    if tree.get("eventTime") is None:
        if about != own and (about or own != "default"):
            yield invalid("involvedObject.namespace", about, _STRAY)
        return
    # Events about what has no namespace are kept in the default one.
    if not about and own not in ("default", "kube-system"):
        yield invalid("involvedObject.namespace", about, _STRAY)
    controller = tree.get("reportingComponent") or ""
    if not controller:
        yield required(controller_at)
    yield from names.label_key(controller, controller_at)
    for name in ("reportingInstance", "action", "reason"):
        text = tree.get(name) or ""
        if not text:
            yield required(name)
        if size(text) > _MOST:
            yield invalid(name, "", f"can have at most {_MOST} characters")
    if size(tree.get("message") or "") > _MOST_NOTE:
        yield invalid("message", "", f"can have at most {_MOST_NOTE} characters")


def _series(tree: Tree) -> Errors:
    series = tree.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        yield invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")


def _new_event(tree: Tree, write: Write) -> Errors:
    """What the newer group asks for beside that."""
    yield from _event(tree, write, _CONTROLLER)
    yield from _series(tree)
    if tree.get("eventTime") is None:
        yield required("eventTime")
    if tree.get("type") not in ("Normal", "Warning"):
        yield invalid("type", "", f"has invalid value: {tree.get('type') or ''}")
    for name in ("firstTimestamp", "lastTimestamp", "count"):
        if tree.get(name):
            yield invalid(name, "", "needs to be unset")
    if any((tree.get("source") or {}).values()):
        yield invalid("source", "", "needs to be unset")


def _event_updated(new: Tree, old: Tree, write: Write) -> Errors:
    return _event(new, write)


def _new_event_updated(new: Tree, old: Tree, write: Write) -> Errors:
    yield from _event(new, write, _CONTROLLER)
    if new.get("series") != old.get("series"):
        yield from _series(new)
    for name in _FIXED:
        if new.get(name) != old.get(name):
            yield immutable(_CONTROLLER if name == "reportingComponent" else name, new.get(name))


RULES: Final[Mapping[str, Rules]] = {
    "events": Rules(validate_create=_event, validate_update=_event_updated),
    "events.events.k8s.io": Rules(validate_create=_new_event, validate_update=_new_event_updated),
}
