"""Allocations that wait for their devices to be made ready."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from allotment.model.resource import DeviceRequestAllocationResult, ResourceClaim
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import allocated_at, name_of, results_of
from allotment.tools.doctor.wording import about, of, remedy, told, unique

_PATIENCE: Final = timedelta(minutes=2)


def find(case: Case) -> Iterable[Sign]:
    """Failed ones first, then those that have waited long, by condition."""
    failed: dict[str, list[ResourceClaim]] = {}
    waiting: dict[str, list[ResourceClaim]] = {}
    for claim in case.claims.values():
        for result in results_of(claim):
            if not result.binding_conditions:
                continue
            said = _said(claim, result)
            bad = [name for name in result.binding_failure_conditions if said.get(name) == "True"]
            missing = [name for name in result.binding_conditions if said.get(name) != "True"]
            if bad:
                failed.setdefault(f"{bad[0]} of {result.driver}", []).append(claim)
            elif missing and case.is_old(allocated_at(claim), _PATIENCE):
                waiting.setdefault(f"{missing[0]} of {result.driver}", []).append(claim)
    for condition, claims in failed.items():
        names = unique(name_of(claim) for claim in claims)
        text = f"{about('claim', names)} failed: binding failure condition {condition} is True"
        yield Sign.of("claim", names, text, _help(names[0]), "error")
    for condition, claims in waiting.items():
        names = unique(name_of(claim) for claim in claims)
        longest = max((age for claim in claims if (age := case.age(allocated_at(claim))) is not None), default=None)
        verb = "waits" if len(names) == 1 else "wait"
        text = f"{about('claim', names)} {verb} for binding condition {condition}"
        text += f", for up to {told(longest)}" if longest is not None else ""
        yield Sign.of("claim", names, text, _help(names[0]))


def _said(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> dict[str, str]:
    this = (result.driver, result.pool, result.device, result.share_id)
    return {
        condition.type: condition.status
        for one in claim.status.devices
        if (one.driver, one.pool, one.device, one.share_id) == this
        for condition in one.conditions
    }


def _help(name: str) -> str:
    words = (
        "Whoever attaches the device reports there: look at the log of its controller. The scheduler gives up after ten"
    )
    words += " minutes, and looks for another device."
    return remedy(words, f"kubectl describe resourceclaim {of(name)}")


CHECK = Check(
    code="D511",
    severity="warning",
    summary="a claim waits for its device to be attached, or that failed",
    why="Devices with binding conditions must be made ready before the pod is bound (KEP-5007). A controller outside"
    " of Kubernetes says so in the claim's status; without it the scheduler waits 600 s and starts again.",
    find=find,
    needs=("resourceclaims",),
)
