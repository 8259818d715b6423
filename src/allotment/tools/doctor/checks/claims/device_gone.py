"""Allocations of devices that are no longer published."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from allotment.engine.cluster.identity import PoolID
from allotment.model.resource import ResourceClaim
from allotment.phrases import first_few
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import kubectl_args, named, remedy


class _MissingDevices(NamedTuple):
    """Unpublished pools and devices, and the claims that hold them; by name, in order."""

    claims: dict[str, ResourceClaim]
    pools: dict[str, None]
    devices: dict[str, None]


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Claims by driver and by what is missing: the whole driver, a pool, or devices of existing pools."""
    found: dict[tuple[str, str], _MissingDevices] = {}
    for id, results in cluster.results.items():
        if id in cluster.devices:
            continue
        kind = "driver" if id.driver not in cluster.drivers else "device"
        if kind == "device" and PoolID(id.driver, id.pool) not in cluster.pools:
            kind = "pool"
        missing = found.setdefault((id.driver, kind), _MissingDevices({}, {}, {}))
        missing.pools[id.pool] = None
        missing.devices[f"{id.pool}/{id.device}"] = None
        missing.claims.update((name_of(claim), claim) for claim, _ in results)
    for (driver, kind), missing in found.items():
        yield _sign(driver, kind, missing)


def _sign(driver: str, kind: str, missing: _MissingDevices) -> Symptom:
    names, pools = list(missing.claims), list(missing.pools)
    used = any(claim.status.reserved_for for claim in missing.claims.values())
    have, are = "holds" if len(names) == 1 else "hold", "is" if len(pools) == 1 else "are"
    why = {
        "driver": f"driver {driver} publishes no devices",
        "pool": f"{named('pool', pools)} of {driver} {are} missing",
        "device": f"{driver} no longer publishes {'it' if len(missing.devices) == 1 else 'them'}",
    }[kind]
    text = f"{named('claim', names)} {have} {first_few(list(missing.devices))}: {why}"
    help_ = remedy(
        "If the device is broken or the node was deleted, delete the pods that use the claim (their work is lost); the"
        f" claim is then allocated again. If the driver is only restarting, its slices reappear; check the pods of "
        f"{driver}.",
        f"kubectl describe resourceclaim {kubectl_args(names[0])}",
    )
    return Symptom.of("claim", names, text, help_, "error" if used else "warning")


CHECK = ClusterCheck(
    code="D503",
    severity="error",
    summary="a claim holds a device that is no longer published",
    why="The hardware failed, the node was deleted, or the driver renamed its devices. Running pods keep their devices;"
    " a new pod that uses the claim can be scheduled only to the same node, and fails there when the claim is "
    "prepared. Schedulers also do not know "
    "the counters that the device consumes, so they may overcommit them.",
    find=find,
    needs=("resourceclaims", "resourceslices"),
    transient=True,
)
