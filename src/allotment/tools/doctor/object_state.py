"""Reads names, times and states from objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from allotment.model.meta import Object
from allotment.model.resource import DeviceRequestAllocationResult, ResourceClaim
from allotment.tools.doctor.objects import Event, Lease, Node, Pod


def time_of(text: str | None) -> datetime | None:
    """A timestamp of an object; None if it is missing or invalid."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def latest_time(values: Iterable[Object]) -> datetime | None:
    """The latest timestamp in any object."""
    texts = {text for value in values for text in _times(value) if text}
    return max(filter(None, map(time_of, texts)), default=None)


def _times(value: Object) -> Iterator[str | None]:
    yield value.metadata.creation_timestamp
    if isinstance(value, Event):
        yield from (value.last_timestamp, value.event_time)
    elif isinstance(value, Lease):
        yield value.spec.renew_time
    elif isinstance(value, Pod | Node):
        yield from (condition.last_transition_time for condition in value.status.conditions)
    elif isinstance(value, ResourceClaim) and value.status.allocation is not None:
        yield value.status.allocation.allocation_timestamp


#: Taints of a node that is not ready.
_DOWN: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


def name_of(value: Object) -> str:
    """``namespace/name`` of an object."""
    return str(value.key)


def allocated_at(claim: ResourceClaim) -> str | None:
    """The time when a claim was allocated; if it is unknown, the time of its creation."""
    allocation = claim.status.allocation
    return (allocation.allocation_timestamp if allocation else None) or claim.metadata.creation_timestamp


def results_of(claim: ResourceClaim) -> Iterable[DeviceRequestAllocationResult]:
    """The device results of a claim."""
    allocation = claim.status.allocation
    return allocation.devices.results if allocation is not None else ()


def is_finished(pod: Pod) -> bool:
    """Whether a pod has terminated."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_down(node: Node) -> bool:
    """Whether a node is not ready or its kubelet does not report."""
    if condition_of(node, "Ready"):
        return condition_of(node, "Ready") != "True"
    return any(taint.key in _DOWN for taint in node.spec.taints)


def condition_of(value: Node | Pod, type: str) -> str:
    """The status of a condition: True, False, Unknown; empty if it is missing."""
    return next((condition.status for condition in value.status.conditions if condition.type == type), "")
