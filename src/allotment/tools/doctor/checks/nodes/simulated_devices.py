"""Devices that a simulated driver publishes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.phrases import counted
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.wording import named, remedy, unique

#: The label of slices that `allot driver run --simulate` publishes.
_LABEL: Final = "allotment.dev/simulated"


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Simulated devices by driver."""
    nodes: dict[str, list[str]] = {}
    devices: dict[str, int] = {}
    for slice_ in cluster.newest:
        spec = slice_.spec
        if _LABEL in slice_.metadata.labels and spec.node_name:
            nodes.setdefault(spec.driver, []).append(spec.node_name)
            devices[spec.driver] = devices.get(spec.driver, 0) + len(spec.devices or ())
    for driver, every in nodes.items():
        names = unique(every)
        are, them = ("is", "it") if devices[driver] == 1 else ("are", "them")
        text = (
            f"{counted(devices[driver], 'device')} of {driver} on {named('node', names)} {are} simulated: pods that use"
            f" {them} start without a real device"
        )
        look = remedy(
            "If this is not intended, uninstall the simulated driver. To list its slices:",
            f"kubectl get resourceslices -l {_LABEL}",
        )
        yield Symptom.of("node", names, text, look)


CHECK = ClusterCheck(
    code="D209",
    severity="note",
    summary="devices are simulated",
    why="Schedulers cannot distinguish them from real devices, because simulated devices publish the vendor's "
    "attributes: a pod that "
    "needs a GPU may run without one. Simulated devices are detected by the label `allotment.dev/simulated` on their "
    "slices.",
    find=find,
    needs=("resourceslices",),
)
