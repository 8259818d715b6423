"""Pools with inconsistent slices."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.cluster.pools import Pool, PoolStatus
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.wording import named, remedy, unique


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Invalid pools by driver and reason."""
    found: dict[tuple[str, str], list[Pool]] = {}
    for pool in cluster.pools.values():
        if pool.status is PoolStatus.INVALID:
            found.setdefault((pool.id.driver, pool.reason), []).append(pool)
    for (driver, reason), pools in found.items():
        names = unique(pool.id.pool for pool in pools)
        text = f"{named('pool', names)} of {driver}: {reason}. Kubernetes ignores such pools"
        slices = [slice_.metadata.name for slice_ in cluster.slices_by_pool[pools[0].id]]
        help_ = remedy(
            "The driver publishes inconsistent slices: report this to its author. If two programs publish slices under"
            " the same driver name, stop one of them.",
            f"kubectl get resourceslice {' '.join(slices[:3])} -o yaml",
        )
        yield Symptom.of("pool", names, text, help_)


CHECK = ClusterCheck(
    code="D303",
    severity="error",
    summary="a pool is invalid: a device is published twice, or a counter does not exist",
    why="Schedulers ignore such a pool (`invalid resource pools were encountered`), and a claim for all devices of the"
    " node fails.",
    find=find,
    needs=("resourceslices",),
)
