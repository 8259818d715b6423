"""Devices that are exclusively allocated to several claims."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.cluster.identity import DeviceID
from allotment.phrases import first_few
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import kubectl_args, remedy, unique


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Devices with several holders, grouped by the holding claims."""
    groups: dict[tuple[str, ...], list[DeviceID]] = {}
    for id, results in cluster.results.items():
        whole = [claim for claim, result in results if not result.admin_access and result.share_id is None]
        holders = unique(name_of(claim) for claim, result in results if not result.admin_access)
        if whole and len(holders) > 1:
            groups.setdefault(holders, []).append(id)
    for holders, devices in groups.items():
        names = [str(id.device) for id in devices]
        where = f"{devices[0].driver} (pool {devices[0].pool})"
        are = "is" if len(names) == 1 else "are"
        text = f"{first_few(names)} of {where} {are} allocated to claims {first_few(holders)} at the same time"
        subject = "device" if len(names) == 1 else f"{len(names)} devices"
        help_ = remedy(
            "Two schedulers or a user wrote these allocations. Delete the pods of one of the claims (their work is "
            "lost); that claim's devices are then released, and new pods of the workload get other devices.",
            f"kubectl describe resourceclaim {kubectl_args(holders[-1])}",
        )
        yield Symptom(f"{subject} {names[0]}" if len(names) == 1 else subject, text, help_, objects=tuple(holders))


CHECK = ClusterCheck(
    code="D501",
    severity="error",
    summary="one device is allocated to two claims",
    why="A device that is not shared can be allocated to only one claim. It is allocated twice if two schedulers do "
    "not see each other's allocations, or if a user edits the status of a claim. Allocations with admin access and "
    "shares of a device are not "
    "reported.",
    find=find,
    needs=("resourceclaims",),
)
