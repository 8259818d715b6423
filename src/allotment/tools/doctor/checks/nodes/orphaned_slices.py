"""Slices of nodes that are not there any more."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.phrases import counted
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.wording import about, remedy


def find(case: Case) -> Iterable[Sign]:
    """All such nodes together."""
    if not case.nodes:
        return
    gone = sorted(name for name in case.drivers_on if name not in case.nodes)
    if not gone:
        return
    left = [one for one in case.slices if one.spec.node_name in set(gone)]
    devices = sum(len(one.spec.devices or ()) for one in left)
    drivers = ", ".join(sorted({one.spec.driver for one in left}))
    verb = "does" if len(gone) == 1 else "do"
    text = (
        f"{about('node', gone)} {verb} not exist, and {counted(len(left), 'ResourceSlice')} of {drivers} still"
        f" {'publishes' if len(left) == 1 else 'publish'} {counted(devices, 'device')} there"
    )
    help_ = remedy(
        "If the node does not come back, delete what it published; that loses nothing, for a driver publishes anew.",
        f"kubectl delete resourceslices --field-selector spec.nodeName={gone[0]}",
    )
    yield Sign.of("node", gone, text, help_)


CHECK = Check(
    code="D203",
    severity="warning",
    summary="ResourceSlices of a node that does not exist",
    why="A slice belongs to its Node and is collected with it. One that stays has no owner reference, or the garbage"
    " collector does not run. Autoscalers and people who count devices count those, too.",
    find=find,
    needs=("nodes", "resourceslices"),
    fleeting=True,
)
