"""Events in both groups: stored in the core shape, served with other field names in events.k8s.io.

As upstream, an event with ``eventTime`` must follow the rules of events.k8s.io and name its controller and action; the
core group accepts others with few checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import immutable, invalid, required
from allotment.model.validation.gotext import size

EVENTS_V1: Final = "events.k8s.io/v1"
#: Core name -> name in events.k8s.io.
_EVENTS_V1_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CONTROLLER: Final = "reportingController"
_IMMUTABLE: Final = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type", "eventTime",
    "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip
_NAMESPACE_MISMATCH: Final = "does not match event.namespace"
_MAX_LENGTH: Final = 128
_MAX_NOTE_LENGTH: Final = 1024
_CORE_NAMES: Final = {new: old for old, new in _EVENTS_V1_NAMES.items()}


def to_events_v1(tree: Tree, version: str) -> Tree:
    """Convert a stored event to events.k8s.io."""
    if tree.get("apiVersion") == EVENTS_V1:
        return tree
    converted = {_EVENTS_V1_NAMES.get(name, name): value for name, value in tree.items()}
    omitted = [name for name in (_CONTROLLER, "reportingInstance") if not converted.get(name)]
    return {name: value for name, value in converted.items() if name not in omitted} | {"apiVersion": EVENTS_V1}


def from_events_v1(tree: Tree, version: str) -> Tree:
    """Convert an event of events.k8s.io to the stored shape."""
    if tree.get("apiVersion") == "v1":
        return tree
    return {_CORE_NAMES.get(name, name): value for name, value in tree.items()} | {"apiVersion": "v1"}


def _event(tree: Tree, write: Write, controller_at: str = "reportingComponent") -> Errors:
    """Validate an event of either group."""
    object_namespace = (tree.get("involvedObject") or {}).get("namespace") or ""
    namespace = tree["metadata"].get("namespace") or ""
    if tree.get("eventTime") is None:
        if object_namespace != namespace and (object_namespace or namespace != "default"):
            yield invalid("involvedObject.namespace", object_namespace, _NAMESPACE_MISMATCH)
        return
    # Events about cluster-scoped objects are in the default namespace.
    if not object_namespace and namespace not in ("default", "kube-system"):
        yield invalid("involvedObject.namespace", object_namespace, _NAMESPACE_MISMATCH)
    controller = tree.get("reportingComponent") or ""
    if not controller:
        yield required(controller_at)
    yield from names.label_key(controller, controller_at)
    for name in ("reportingInstance", "action", "reason"):
        text = tree.get(name) or ""
        if not text:
            yield required(name)
        if size(text) > _MAX_LENGTH:
            yield invalid(name, "", f"can have at most {_MAX_LENGTH} characters")
    if size(tree.get("message") or "") > _MAX_NOTE_LENGTH:
        yield invalid("message", "", f"can have at most {_MAX_NOTE_LENGTH} characters")


def _series(tree: Tree) -> Errors:
    series = tree.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        yield invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")


def _events_v1_event(tree: Tree, write: Write) -> Errors:
    """The additional rules of events.k8s.io."""
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


def _event_update(new: Tree, old: Tree, write: Write) -> Errors:
    return _event(new, write)


def _events_v1_event_update(new: Tree, old: Tree, write: Write) -> Errors:
    yield from _event(new, write, _CONTROLLER)
    if new.get("series") != old.get("series"):
        yield from _series(new)
    for name in _IMMUTABLE:
        if new.get(name) != old.get(name):
            yield immutable(_CONTROLLER if name == "reportingComponent" else name, new.get(name))


RULES: Final[Mapping[str, KindRules]] = {
    "events": KindRules(validate_create=_event, validate_update=_event_update),
    "events.events.k8s.io": KindRules(validate_create=_events_v1_event, validate_update=_events_v1_event_update),
}
