"""Drivers whose devices no class offers."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.cluster.identity import PoolID
from allotment.phrases import counted
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.wording import remedy


def find(case: Case) -> Iterable[Sign]:
    """Driver by driver. Where a selector fails nobody can tell what it would have selected; devices of pools that
    nobody takes anything from are not tried."""
    offered = {one.driver for found in case.matches.values() for node in found.nodes for one in node.matched}
    if any(node.error for found in case.matches.values() for node in found.nodes):
        return
    for driver in case.drivers:
        devices = sum(id.driver == driver and PoolID(id.driver, id.pool) in case.usable for id in case.devices)
        if devices and driver not in offered:
            text = f"{counted(devices, 'device')} published, and none of {counted(len(case.classes), 'DeviceClass')}"
            text += " selects one: no claim can ask for them"
            words = "Install the classes of the driver's chart, or make one with this selector:"
            words += f' device.driver == "{driver}".'
            yield Sign(f"driver {driver}", text, remedy(words, "kubectl get deviceclasses"))


CHECK = Check(
    code="D401",
    severity="warning",
    summary="a driver publishes devices, and no DeviceClass selects them",
    why="A request names a class, always. Drivers' charts install theirs; somebody may have left them out, or deleted"
    " them.",
    find=find,
    needs=("resourceslices", "deviceclasses"),
)
