"""Slices of a generation that has been replaced."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.model.resource import ResourceSlice
from allotment.phrases import counted
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.wording import named, remedy, unique


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """By driver."""
    newest = {one.metadata.name for one in cluster.newest}
    by_driver: dict[str, list[ResourceSlice]] = {}
    for one in cluster.slices:
        if one.metadata.name not in newest and cluster.is_old(one.metadata.creation_timestamp):
            by_driver.setdefault(one.spec.driver, []).append(one)
    for driver, old in by_driver.items():
        names = unique(one.metadata.name for one in old)
        pools = unique(one.spec.pool.name for one in old)
        nodes = {pool: {one.spec.node_name for one in old if one.spec.pool.name == pool} for pool in pools}
        text = (
            f"{counted(len(old), 'slice')} of {driver} in {named('pool', pools)} of an older generation than others of"
            " the pool: their devices do not count"
        )
        shared = any(
            len(nodes[one.spec.pool.name] | {one.spec.node_name}) > 1
            for one in cluster.newest
            if one.spec.driver == driver and one.spec.pool.name in nodes
        )
        words = "Delete them; a driver that still needs them publishes anew."
        if shared:
            words = (
                "They are of another node than the newer ones: one pool name for several nodes. A driver must name its"
                " pools by node; report that to its author. To free the devices now, delete the older slices; the"
                " driver publishes anew."
            )
        yield Symptom.of("slice", names, text, remedy(words, f"kubectl delete resourceslice {' '.join(names[:3])}"))


CHECK = ClusterCheck(
    code="D302",
    severity="warning",
    summary="slices of an old generation were left behind",
    why="Of a pool only the slices of the highest generation count (KEP-4381). A driver deletes the others as it"
    " publishes; one that was killed meanwhile leaves them, and people who count slices by hand count too much. If two"
    " nodes share the name of a pool, the devices of one of them vanish this way.",
    find=find,
    needs=("resourceslices",),
    transient=True,
)
