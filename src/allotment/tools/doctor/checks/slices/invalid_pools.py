"""Pools whose slices contradict each other."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.cluster.pools import Pool, PoolStatus
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.wording import about, remedy, unique


def find(case: Case) -> Iterable[Sign]:
    """By driver and what is wrong."""
    found: dict[tuple[str, str], list[Pool]] = {}
    for pool in case.pools.values():
        if pool.status is PoolStatus.INVALID:
            found.setdefault((pool.id.driver, pool.reason), []).append(pool)
    for (driver, reason), pools in found.items():
        names = unique(pool.id.pool for pool in pools)
        text = f"{about('pool', names)} of {driver}: {reason}. Kubernetes ignores such a pool"
        slices = [one.metadata.name for one in case.slices_by_pool[pools[0].id]]
        help_ = remedy(
            "The driver publishes what contradicts itself: report it to its author. If two programs publish under one"
            " driver's name, stop one of them.",
            f"kubectl get resourceslice {' '.join(slices[:3])} -o yaml",
        )
        yield Sign.of("pool", names, text, help_)


CHECK = Check(
    code="D303",
    severity="error",
    summary="a pool contradicts itself: a device twice, or a counter that is not there",
    why="Schedulers take nothing from such a pool (`invalid resource pools were encountered`), and a claim for all"
    " devices of the node fails.",
    find=find,
    needs=("resourceslices",),
)
