"""Allocations of devices that nobody publishes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from allotment.engine.cluster.identity import PoolID
from allotment.model.resource import ResourceClaim
from allotment.phrases import first_few
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import about, of, remedy


class _Lost(NamedTuple):
    """What is gone, and the claims that have it; by name, in order."""

    claims: dict[str, ResourceClaim]
    pools: dict[str, None]
    devices: dict[str, None]


def find(case: Case) -> Iterable[Sign]:
    """By driver and by what is gone: all of the driver, pools, or devices of pools that are there."""
    found: dict[tuple[str, str], _Lost] = {}
    for id, results in case.results.items():
        if id in case.devices:
            continue
        kind = "driver" if id.driver not in case.drivers else "device"
        if kind == "device" and PoolID(id.driver, id.pool) not in case.pools:
            kind = "pool"
        lost = found.setdefault((id.driver, kind), _Lost({}, {}, {}))
        lost.pools[id.pool] = None
        lost.devices[f"{id.pool}/{id.device}"] = None
        lost.claims.update((name_of(claim), claim) for claim, _ in results)
    for (driver, kind), lost in found.items():
        yield _sign(driver, kind, lost)


def _sign(driver: str, kind: str, lost: _Lost) -> Sign:
    names, pools = list(lost.claims), list(lost.pools)
    used = any(claim.status.reserved_for for claim in lost.claims.values())
    have, are = "has" if len(names) == 1 else "have", "is" if len(pools) == 1 else "are"
    why = {
        "driver": f"driver {driver} publishes nothing",
        "pool": f"{about('pool', pools)} of {driver} {are} gone",
        "device": f"{driver} does not publish {'it' if len(lost.devices) == 1 else 'them'} any more",
    }[kind]
    text = f"{about('claim', names)} {have} {first_few(list(lost.devices))}: {why}"
    help_ = remedy(
        "Where the device is broken or the node is gone, delete the pods that use the claim (what they do is lost);"
        f" the claim is then allocated anew. If the driver only restarts, its slices come back: look at {driver}.",
        f"kubectl describe resourceclaim {of(names[0])}",
    )
    return Sign.of("claim", names, text, help_, "error" if used else "warning")


CHECK = Check(
    code="D503",
    severity="error",
    summary="a claim has a device that nobody publishes any more",
    why="The hardware vanished, the node is gone, or the driver names its devices anew. Pods that run keep what they"
    " have; one that starts fails at prepare, and the claim binds it to that place for ever. What the device consumed"
    " of shared counters is not known to schedulers either, so they may give too much.",
    find=find,
    needs=("resourceclaims", "resourceslices"),
    fleeting=True,
)
