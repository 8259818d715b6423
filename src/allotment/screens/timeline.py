"""The past of an object, with times: creation, allocation, conditions, and events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from allotment.model.core import Pod
from allotment.model.meta import Condition, Object, Value
from allotment.model.resource import ResourceClaim
from allotment.model.trees import Tree
from allotment.watched.view import ClusterView


class TimelineEntry(Value, frozen=True, omit_defaults=False):
    """Something that happened. ``time``: RFC 3339. ``source``: ``object``, ``condition``, or the component of an
    event."""

    time: str
    source: str
    reason: str
    text: str


def timeline(view: ClusterView, value: Object) -> tuple[TimelineEntry, ...]:
    """Return what is known of an object's past, the newest last."""
    kind, key = type(value).__name__, value.key
    tree = view.tree(kind, key) or {}
    entries = [*_of_metadata(value), *_of_conditions(tree, value), *_of_allocation(value)]
    entries += [_of_event(event) for event in view.events if _is_about(event, kind, key.namespace, key.name)]
    return tuple(sorted(entries, key=lambda entry: entry.time))


def _of_metadata(value: Object) -> Iterator[TimelineEntry]:
    kind, metadata = type(value).__name__, value.metadata
    if metadata.creation_timestamp:
        yield TimelineEntry(metadata.creation_timestamp, "object", "Created", f"{kind} {value.key} is created")
    if metadata.deletion_timestamp:
        text = f"{kind} {value.key} is being deleted"
        yield TimelineEntry(metadata.deletion_timestamp, "object", "Deleted", text)


def _of_conditions(tree: Tree, value: Object) -> Iterator[TimelineEntry]:
    conditions = (tree.get("status") or {}).get("conditions") or ()
    for condition in conditions:
        time = condition.get("lastTransitionTime")
        if time:
            text = condition.get("message") or f"{condition.get('type')} is {condition.get('status')}"
            reason = condition.get("reason") or f"{condition.get('type')}={condition.get('status')}"
            yield TimelineEntry(str(time), "condition", str(reason), str(text))
    if not conditions and isinstance(value, Pod):
        yield from filter(None, map(_of_condition, value.status.conditions))


def _of_condition(condition: Condition) -> TimelineEntry | None:
    if not condition.last_transition_time:
        return None
    text = condition.message or f"{condition.type} is {condition.status}"
    return TimelineEntry(condition.last_transition_time, "condition", condition.reason, text)


def _of_allocation(value: Object) -> Iterator[TimelineEntry]:
    allocation = value.status.allocation if isinstance(value, ResourceClaim) else None
    if allocation is not None and allocation.allocation_timestamp:
        devices = ", ".join(f"{result.pool}/{result.device}" for result in allocation.devices.results)
        yield TimelineEntry(allocation.allocation_timestamp, "object", "Allocated", devices)


def _of_event(event: Tree) -> TimelineEntry:
    times = (event.get(name) for name in ("lastTimestamp", "eventTime", "deprecatedLastTimestamp", "firstTimestamp"))
    source: Mapping[str, Any] = event.get("source") or event.get("deprecatedSource") or {}
    return TimelineEntry(
        time=str(next(filter(None, times), (event.get("metadata") or {}).get("creationTimestamp") or "")),
        source=str(
            event.get("reportingComponent") or event.get("reportingController") or source.get("component") or ""
        ),
        reason=str(event.get("reason") or ""),
        text=str(event.get("message") or event.get("note") or ""),
    )


def _is_about(event: Tree, kind: str, namespace: str, name: str) -> bool:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return (about.get("kind"), about.get("namespace") or "", about.get("name")) == (kind, namespace, name)
