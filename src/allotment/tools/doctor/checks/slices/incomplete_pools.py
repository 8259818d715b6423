"""Pools of which not as many slices exist as they announce."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.cluster.pools import Pool, PoolStatus
from allotment.phrases import counted
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.wording import named, remedy, unique


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """By driver; pools that miss slices and those that have too many apart."""
    for surplus in (False, True):
        by_driver: dict[str, list[Pool]] = {}
        for pool in cluster.pools.values():
            if pool.status is PoolStatus.INCOMPLETE and pool.has_surplus is surplus and _lasts(cluster, pool):
                by_driver.setdefault(pool.id.driver, []).append(pool)
        for driver, pools in by_driver.items():
            yield _sign(cluster, driver, pools, surplus)


def _lasts(cluster: ClusterIndex, pool: Pool) -> bool:
    """Whether nothing of it was written just now: while a driver publishes, this is how it looks.

    What is left of a node that is gone is told with the node.
    """
    slices = [s for s in cluster.slices_by_pool[pool.id] if s.spec.pool.generation == pool.generation]
    if cluster.nodes and all(map(cluster.is_orphaned, slices)):
        return False
    return all(cluster.is_old(one.metadata.creation_timestamp) for one in slices)


def _sign(cluster: ClusterIndex, driver: str, pools: list[Pool], surplus: bool) -> Symptom:
    first, names = pools[0], unique(pool.id.pool for pool in pools)
    devices = sum(
        len(one.spec.devices or ())
        for pool in pools
        for one in cluster.slices_by_pool[pool.id]
        if one.spec.pool.generation == pool.generation
    )
    text = (
        f"{named('pool', names)} of {driver}: {counted(first.found, 'slice')} of generation {first.generation},"
        f" {first.announced} announced. Kubernetes ignores such a pool, and so {counted(devices, 'device')}"
    )
    listing = f"kubectl get resourceslices --field-selector spec.driver={driver}"
    words = "Look at the log of the driver's pod on the node; restart it: it publishes what is missing."
    if surplus:
        words = "A slice too many was left behind, by an earlier driver or by hand. Restart the driver there, or"
        words += " delete the slice that is none of its own; the driver publishes anew what it misses."
    return Symptom.of("pool", names, text, remedy(words, listing))


CHECK = ClusterCheck(
    code="D301",
    severity="error",
    summary="a pool is incomplete: not as many slices as it announces",
    why="A scheduler must see a whole pool to decide (KEP-4381), so it takes nothing from one of which slices are"
    " missing, or of which there are more than announced; a claim for all devices of the node fails. While a driver"
    " publishes that is so for a moment; what is younger than a minute is not told.",
    find=find,
    needs=("resourceslices",),
    transient=True,
)
