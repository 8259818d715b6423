"""Allocations of devices that nobody publishes."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.cluster.identity import PoolID
from allotment.model.resource import ResourceClaim
from allotment.tools.doctor.case import Case, name_of
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.wording import of, remedy, some, subject, unique


def find(case: Case) -> Iterable[Sign]:
    """By what is gone: the driver, the pool, or devices of it."""
    found: dict[tuple[str, str], dict[str, tuple[ResourceClaim, list[str]]]] = {}
    for id, results in case.results.items():
        if id in case.devices:
            continue
        if id.driver not in case.drivers:
            gone = (f"driver {id.driver} publishes nothing", id.driver)
        elif PoolID(id.driver, id.pool) not in case.pools:
            gone = (f"pool {id.pool} of {id.driver} is gone", id.driver)
        else:
            gone = (f"pool {id.pool} of {id.driver} does not publish it any more", id.driver)
        for claim, _ in results:
            found.setdefault(gone, {}).setdefault(name_of(claim), (claim, []))[1].append(id.device)
    for (why, driver), claims in found.items():
        names = list(claims)
        devices = unique(device for _, lost in claims.values() for device in lost)
        used = any(claim.status.reserved_for for claim, _ in claims.values())
        have = "has" if len(names) == 1 else "have"
        text = f"claim {some(names)} {have} {some(devices)}: {why}"
        help_ = remedy(
            "Where the device is broken or the node is gone, delete the pods that use the claim (what they do is lost);"
            f" the claim is then allocated anew. If the driver only restarts, its slices come back: look at {driver}.",
            f"kubectl describe resourceclaim {of(names[0])}",
        )
        yield Sign(subject("claim", names), text, help_, "error" if used else "warning", tuple(names))


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
