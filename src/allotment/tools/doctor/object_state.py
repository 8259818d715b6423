"""What an object says of itself: its name, what it holds, whether it is finished or down."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.model.meta import Object
from allotment.model.resource import DeviceRequestAllocationResult, ResourceClaim
from allotment.tools.doctor.objects import Node, Pod

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
