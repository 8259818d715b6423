"""Drivers whose devices no DeviceClass selects."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.cluster.identity import PoolID
from allotment.phrases import counted
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.wording import remedy


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Drivers without a selected device; nothing if a selector fails, because its devices are unknown.

    Devices of unusable pools are not considered.
    """
    offered = {device.driver for found in cluster.matches.values() for node in found.nodes for device in node.matched}
    if any(node.error for found in cluster.matches.values() for node in found.nodes):
        return
    for driver in cluster.drivers:
        devices = sum(id.driver == driver and PoolID(id.driver, id.pool) in cluster.usable for id in cluster.devices)
        if devices and driver not in offered:
            are, them = ("is", "it") if devices == 1 else ("are", "them")
            text = (
                f"{counted(devices, 'device')} {are} published, but no DeviceClass selects {them}, so no claim can "
                "request"
            )
            text += f" {them}"
            words = "Install the classes of the driver's chart, or create one with this selector:"
            words += f' device.driver == "{driver}".'
            yield Symptom(f"driver {driver}", text, remedy(words, "kubectl get deviceclasses"))


CHECK = ClusterCheck(
    code="D401",
    severity="warning",
    summary="a driver publishes devices that no DeviceClass selects",
    why="Every request must specify a class. Drivers' Helm charts install classes, but these may have been disabled "
    "or deleted.",
    find=find,
    needs=("resourceslices", "deviceclasses"),
)
