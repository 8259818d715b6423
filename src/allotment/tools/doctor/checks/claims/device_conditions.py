"""Allocated devices that their driver reports as not ready."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.model.resource import AllocatedDeviceStatus, ResourceClaim
from allotment.phrases import first_few
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import kubectl_args, named, remedy, unique


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Claims with devices that are not ready, by driver and reason."""
    groups: dict[tuple[str, str], list[tuple[ResourceClaim, AllocatedDeviceStatus, str]]] = {}
    for claim in cluster.claims.values():
        for status in claim.status.devices:
            for condition in status.conditions:
                if condition.type == "Ready" and condition.status == "False":
                    key = (status.driver, condition.reason or condition.message)
                    groups.setdefault(key, []).append((claim, status, condition.message or condition.reason))
    for (driver, reason), found in groups.items():
        names = unique(name_of(claim) for claim, _, _ in found)
        devices = unique(f"{status.pool}/{status.device}" for _, status, _ in found)
        text = f"{driver} reports {first_few(devices)} of {named('claim', names)} as not Ready: {reason}"
        message = found[0][2]
        text += f" ({message})" if message and message != reason else ""
        words = "Check the driver's log on the node, and the hardware. To move the workload, delete the pod."
        yield Symptom.of(
            "claim", names, text, remedy(words, f"kubectl describe resourceclaim {kubectl_args(names[0])}")
        )


CHECK = ClusterCheck(
    code="D510",
    severity="error",
    summary="a driver reports an allocated device as not ready",
    why="Drivers report the state of allocated devices in the claim's status (KEP-4817). Kubernetes does not react "
    "to these reports.",
    find=find,
    needs=("resourceclaims",),
)
