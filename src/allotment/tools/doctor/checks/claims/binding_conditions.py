"""Allocations that wait for binding conditions of their devices."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from allotment.model.resource import DeviceRequestAllocationResult, ResourceClaim
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import allocated_at, name_of, results_of
from allotment.tools.doctor.wording import duration_text, kubectl_args, named, remedy, unique

_MIN_AGE: Final = timedelta(minutes=2)


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Claims with failed conditions, then claims that have been waiting for a long time, by condition."""
    failed: dict[str, list[ResourceClaim]] = {}
    waiting: dict[str, list[ResourceClaim]] = {}
    for claim in cluster.claims.values():
        for result in results_of(claim):
            if not result.binding_conditions:
                continue
            statuses = _condition_statuses(claim, result)
            bad = [name for name in result.binding_failure_conditions if statuses.get(name) == "True"]
            missing = [name for name in result.binding_conditions if statuses.get(name) != "True"]
            if bad:
                failed.setdefault(f"{bad[0]} of {result.driver}", []).append(claim)
            elif missing and cluster.is_old(allocated_at(claim), _MIN_AGE):
                waiting.setdefault(f"{missing[0]} of {result.driver}", []).append(claim)
    for condition, claims in failed.items():
        names = unique(name_of(claim) for claim in claims)
        text = f"{named('claim', names)} cannot be used: binding failure condition {condition} is True"
        yield Symptom.of("claim", names, text, _help(names[0]), "error")
    for condition, claims in waiting.items():
        names = unique(name_of(claim) for claim in claims)
        longest = max((age for claim in claims if (age := cluster.age(allocated_at(claim))) is not None), default=None)
        verb = "is waiting" if len(names) == 1 else "are waiting"
        text = f"{named('claim', names)} {verb} for binding condition {condition}"
        text += f", for up to {duration_text(longest)}" if longest is not None else ""
        yield Symptom.of("claim", names, text, _help(names[0]))


def _condition_statuses(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> dict[str, str]:
    allocated = (result.driver, result.pool, result.device, result.share_id)
    return {
        condition.type: condition.status
        for device in claim.status.devices
        if (device.driver, device.pool, device.device, device.share_id) == allocated
        for condition in device.conditions
    }


def _help(name: str) -> str:
    words = "Check the log of the controller that attaches the device. The scheduler gives up after ten minutes and"
    words += " selects another device."
    return remedy(words, f"kubectl describe resourceclaim {kubectl_args(name)}")


CHECK = ClusterCheck(
    code="D511",
    severity="warning",
    summary="a claim is waiting for a binding condition of its device, or the binding failed",
    why="Devices with binding conditions must be ready before the pod is bound (KEP-5007). An external controller "
    "reports their readiness in the claim's status. If it does not, the scheduler gives up after 600 seconds and "
    "selects a node again.",
    find=find,
    needs=("resourceclaims",),
)
