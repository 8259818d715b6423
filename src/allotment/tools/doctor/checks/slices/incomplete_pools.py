"""Pools with fewer or more slices than they announce."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.cluster.pools import Pool, PoolStatus
from allotment.phrases import counted
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.wording import named, remedy, unique


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Such pools by driver; pools with missing and with surplus slices separately."""
    for surplus in (False, True):
        by_driver: dict[str, list[Pool]] = {}
        for pool in cluster.pools.values():
            if pool.status is PoolStatus.INCOMPLETE and pool.has_surplus is surplus and _is_persistent(cluster, pool):
                by_driver.setdefault(pool.id.driver, []).append(pool)
        for driver, pools in by_driver.items():
            yield _symptom(cluster, driver, pools, surplus)


def _is_persistent(cluster: ClusterIndex, pool: Pool) -> bool:
    """Whether no slice of the pool is new: a pool is incomplete for a short time while a driver publishes it.

    Slices of a deleted node are reported by the check of the node.
    """
    slices = [s for s in cluster.slices_by_pool[pool.id] if s.spec.pool.generation == pool.generation]
    if cluster.nodes and all(map(cluster.is_orphaned, slices)):
        return False
    return all(cluster.is_old(slice_.metadata.creation_timestamp) for slice_ in slices)


def _symptom(cluster: ClusterIndex, driver: str, pools: list[Pool], surplus: bool) -> Symptom:
    first, names = pools[0], unique(pool.id.pool for pool in pools)
    devices = sum(
        len(slice_.spec.devices or ())
        for pool in pools
        for slice_ in cluster.slices_by_pool[pool.id]
        if slice_.spec.pool.generation == pool.generation
    )
    text = (
        f"{named('pool', names)} of {driver}: {counted(first.found, 'slice')} of generation {first.generation} "
        f"published, but {first.announced} announced. Kubernetes ignores such pools; {counted(devices, 'device')} "
        "cannot be allocated"
    )
    listing = f"kubectl get resourceslices --field-selector spec.driver={driver}"
    words = (
        "Check the log of the driver's pod on the node, and restart the pod so that it publishes the missing slices."
    )
    if surplus:
        words = (
            "An earlier driver instance or a user left an additional slice behind. Restart the driver on the node, or "
            "delete the slice that does not belong to the pool; the driver publishes missing slices again."
        )
    return Symptom.of("pool", names, text, remedy(words, listing))


CHECK = ClusterCheck(
    code="D301",
    severity="error",
    summary="a pool is incomplete: it has fewer or more slices than it announces",
    why="Schedulers require complete pools (KEP-4381), so they ignore pools with missing or additional slices, and a "
    "claim for all devices of the node fails. While a driver is publishing, this is normal for a short time; slices "
    "younger than"
    " a minute are not reported.",
    find=find,
    needs=("resourceslices",),
    transient=True,
)
