"""Slices of nodes that no longer exist."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.phrases import counted
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.wording import named, remedy


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """All such nodes as one symptom."""
    if not cluster.nodes:
        return
    gone = sorted(name for name in cluster.drivers_on if name not in cluster.nodes)
    if not gone:
        return
    left = [slice_ for slice_ in cluster.slices if slice_.spec.node_name in set(gone)]
    devices = sum(len(slice_.spec.devices or ()) for slice_ in left)
    drivers = ", ".join(sorted({slice_.spec.driver for slice_ in left}))
    verb, them = ("does", "it") if len(gone) == 1 else ("do", "them")
    text = (
        f"{named('node', gone)} {verb} not exist, but {counted(len(left), 'ResourceSlice')} of {drivers} still"
        f" {'publishes' if len(left) == 1 else 'publish'} {counted(devices, 'device')} for {them}"
    )
    help_ = remedy(
        "If the node does not return, delete its slices; that is safe, because a driver publishes them again.",
        f"kubectl delete resourceslices --field-selector spec.nodeName={gone[0]}",
    )
    yield Symptom.of("node", gone, text, help_)


CHECK = ClusterCheck(
    code="D203",
    severity="warning",
    summary="ResourceSlices belong to a node that does not exist",
    why="A slice is owned by its Node and is garbage-collected with it. If a slice remains, it has no owner "
    "reference, or the garbage collector is not running. Autoscalers and reports may still count its devices.",
    find=find,
    needs=("nodes", "resourceslices"),
    transient=True,
)
