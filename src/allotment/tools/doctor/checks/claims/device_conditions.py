"""Allocated devices of which their driver says that something is wrong."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.model.resource import AllocatedDeviceStatus, ResourceClaim
from allotment.phrases import first_few
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import about, of, remedy, unique


def find(case: Case) -> Iterable[Sign]:
    """By reason."""
    alike: dict[tuple[str, str], list[tuple[ResourceClaim, AllocatedDeviceStatus, str]]] = {}
    for claim in case.claims.values():
        for status in claim.status.devices:
            for one in status.conditions:
                if one.type == "Ready" and one.status == "False":
                    key = (status.driver, one.reason or one.message)
                    alike.setdefault(key, []).append((claim, status, one.message or one.reason))
    for (driver, reason), found in alike.items():
        names = unique(name_of(claim) for claim, _, _ in found)
        devices = unique(f"{status.pool}/{status.device}" for _, status, _ in found)
        text = f"{about('claim', names)} with {first_few(devices)}: {driver} says not Ready: {reason}"
        message = found[0][2]
        text += f" ({message})" if message and message != reason else ""
        words = "Look at the driver's log on that node, and at the hardware. To move the work, delete the pod."
        yield Sign.of("claim", names, text, remedy(words, f"kubectl describe resourceclaim {of(names[0])}"))


CHECK = Check(
    code="D510",
    severity="error",
    summary="a driver reports an allocated device as not ready",
    why="Drivers write what they know of devices in use into the claim's status (KEP-4817). Kubernetes does nothing"
    " with it.",
    find=find,
    needs=("resourceclaims",),
)
