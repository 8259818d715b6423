"""What an object says of itself: its name, what it holds, whether it is finished or down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from allotment.model.meta import Object
from allotment.model.resource import DeviceRequestAllocationResult, ResourceClaim
from allotment.tools.doctor.objects import Event, Lease, Node, Pod


def time_of(text: str | None) -> datetime | None:
    """A time of an object; None where there is none, or none that can be read."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def latest_time(values: Iterable[Object]) -> datetime | None:
    """The last moment of which any object knows."""
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
    """Namespace and name as people write them."""
    return str(value.key)


def allocated_at(claim: ResourceClaim) -> str | None:
    """When a claim was allocated; where nothing tells, when it was made."""
    allocation = claim.status.allocation
    return (allocation.allocation_timestamp if allocation else None) or claim.metadata.creation_timestamp


def results_of(claim: ResourceClaim) -> Iterable[DeviceRequestAllocationResult]:
    """The devices that a claim has."""
    allocation = claim.status.allocation
    return allocation.devices.results if allocation is not None else ()


def is_finished(pod: Pod) -> bool:
    """Whether nothing of a pod runs, nor will again."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_down(node: Node) -> bool:
    """Whether a node's kubelet says that it is not ready, has fallen silent, or has never come."""
    if condition_of(node, "Ready"):
        return condition_of(node, "Ready") != "True"
    return any(taint.key in _DOWN for taint in node.spec.taints)


def condition_of(value: Node | Pod, type: str) -> str:
    """The status of a condition: True, False, Unknown; empty if nobody says."""
    return next((one.status for one in value.status.conditions if one.type == type), "")
