"""Devices that are published and are not there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.phrases import counted
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.wording import about, remedy, unique

#: `allot driver run --simulate` puts it on its slices.
_LABEL: Final = "allotment.dev/simulated"


def find(case: Case) -> Iterable[Sign]:
    """By driver."""
    nodes: dict[str, list[str]] = {}
    devices: dict[str, int] = {}
    for one in case.newest:
        if _LABEL in one.metadata.labels and one.spec.node_name:
            nodes.setdefault(one.spec.driver, []).append(one.spec.node_name)
            devices[one.spec.driver] = devices.get(one.spec.driver, 0) + len(one.spec.devices or ())
    for driver, every in nodes.items():
        names = unique(every)
        text = (
            f"{counted(devices[driver], 'device')} of {driver} on {about('node', names)} are simulated: a pod that is"
        )
        text += " given one starts, and has no device"
        look = remedy("Where that is not meant:", f"kubectl get resourceslices -l {_LABEL}")
        yield Sign.of("node", names, text, look)


CHECK = Check(
    code="D209",
    severity="note",
    summary="devices are simulated",
    why="Schedulers cannot tell them from others, for their attributes are the vendor's: a pod that should have a GPU"
    " may come to run without. Known by the label `allotment.dev/simulated` of slices.",
    find=find,
    needs=("resourceslices",),
)
