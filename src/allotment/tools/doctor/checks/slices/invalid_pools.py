"""Pools whose slices contradict each other."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.cluster.pools import Pool, PoolStatus
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.wording import named, remedy, unique


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """By driver and what is wrong."""
    found: dict[tuple[str, str], list[Pool]] = {}
    for pool in cluster.pools.values():
        if pool.status is PoolStatus.INVALID:
            found.setdefault((pool.id.driver, pool.reason), []).append(pool)
    for (driver, reason), pools in found.items():
        names = unique(pool.id.pool for pool in pools)
        text = f"{named('pool', names)} of {driver}: {reason}. Kubernetes ignores such a pool"
        slices = [one.metadata.name for one in cluster.slices_by_pool[pools[0].id]]
        help_ = remedy(
            "The driver publishes what contradicts itself: report it to its author. If two programs publish under one"
            " driver's name, stop one of them.",
            f"kubectl get resourceslice {' '.join(slices[:3])} -o yaml",
        )
        yield Symptom.of("pool", names, text, help_)


CHECK = ClusterCheck(
    code="D303",
    severity="error",
    summary="a pool contradicts itself: a device twice, or a counter that is not there",
    why="Schedulers take nothing from such a pool (`invalid resource pools were encountered`), and a claim for all"
    " devices of the node fails.",
    find=find,
    needs=("resourceslices",),
)
