"""Devices that two claims hold whole."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.cluster.identity import DeviceID
from allotment.phrases import first_few
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import of, remedy, unique


def find(case: Case) -> Iterable[Sign]:
    """Device by device; the claims that hold the same devices are told once."""
    alike: dict[tuple[str, ...], list[DeviceID]] = {}
    for id, results in case.results.items():
        whole = [claim for claim, result in results if not result.admin_access and result.share_id is None]
        holders = unique(name_of(claim) for claim, result in results if not result.admin_access)
        if whole and len(holders) > 1:
            alike.setdefault(holders, []).append(id)
    for holders, devices in alike.items():
        names = [str(id.device) for id in devices]
        where = f"{devices[0].driver}, pool {devices[0].pool}"
        text = f"{first_few(names)} of {where}: allocated to claims {first_few(holders)} at the same time"
        what = "device" if len(names) == 1 else f"{len(names)} devices"
        help_ = remedy(
            "Two schedulers, or somebody by hand, wrote these allocations. Delete the pods of one of the claims (what"
            " they do is lost); its devices are given back, and a workload's new pods are allocated others.",
            f"kubectl describe resourceclaim {of(holders[-1])}",
        )
        yield Sign(f"{what} {names[0]}" if len(names) == 1 else what, text, help_, objects=tuple(holders))


CHECK = Check(
    code="D501",
    severity="error",
    summary="one device is allocated to two claims",
    why="A device that is not shared belongs to one claim. Two have it when two schedulers work without seeing each"
    " other's allocations, or when a status was written by hand. Admin access and shares do not count.",
    find=find,
    needs=("resourceclaims",),
)
