"""Slices of an old generation of their pool."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.model.resource import ResourceSlice
from allotment.phrases import counted
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.wording import named, remedy, unique


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Old slices by driver."""
    newest = {slice_.metadata.name for slice_ in cluster.newest}
    by_driver: dict[str, list[ResourceSlice]] = {}
    for slice_ in cluster.slices:
        if slice_.metadata.name not in newest and cluster.is_old(slice_.metadata.creation_timestamp):
            by_driver.setdefault(slice_.spec.driver, []).append(slice_)
    for driver, old in by_driver.items():
        names = unique(slice_.metadata.name for slice_ in old)
        pools = unique(slice_.spec.pool.name for slice_ in old)
        nodes = {pool: {s.spec.node_name for s in old if s.spec.pool.name == pool} for pool in pools}
        are, slices, them = ("is", "slice", "it") if len(old) == 1 else ("are", "slices", "them")
        text = (
            f"{counted(len(old), 'slice')} of {driver} in {named('pool', pools)} {are} of an older generation than "
            f"other slices of the pool; the devices of the older {slices} are ignored"
        )
        shared = any(
            len(nodes[slice_.spec.pool.name] | {slice_.spec.node_name}) > 1
            for slice_ in cluster.newest
            if slice_.spec.driver == driver and slice_.spec.pool.name in nodes
        )
        words = f"Delete the older {slices}; a driver that still needs {them} publishes {them} again."
        if shared:
            words = (
                "Several nodes use the same pool name, so newer slices supersede those of another node. Report this to "
                f"the author of the driver. To restore the devices now, delete the older {slices}; the driver "
                f"publishes {them} again."
            )
        yield Symptom.of("slice", names, text, remedy(words, f"kubectl delete resourceslice {' '.join(names[:3])}"))


CHECK = ClusterCheck(
    code="D302",
    severity="warning",
    summary="slices of an old generation still exist",
    why="Schedulers use only the slices with the highest generation of a pool (KEP-4381). A driver deletes older "
    "slices when it publishes new ones; if it is killed before that, they remain. If two nodes use the same pool "
    "name, the devices of one of them are therefore ignored.",
    find=find,
    needs=("resourceslices",),
    transient=True,
)
