"""Nodes that are not ready, and whose devices are still offered or held."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.phrases import counted
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import is_down
from allotment.tools.doctor.objects import Node
from allotment.tools.doctor.wording import about, remedy


def find(case: Case) -> Iterable[Sign]:
    """All such nodes together."""
    down = [name for name, node in case.nodes.items() if name in case.drivers_on and _lasts(case, node)]
    if not down:
        return
    there = set(down)
    devices = [id for id, found in case.devices.items() if found.slice.spec.node_name in there]
    held = sum(id in case.results for id in devices)
    verb = "is" if len(down) == 1 else "are"
    text = f"{about('node', down)} {verb} not Ready, with {counted(len(devices), 'device')}, {held} of them in use"
    yield Sign.of("node", down, text, remedy("", f"kubectl describe node {down[0]}"))


def _lasts(case: Case, node: Node) -> bool:
    """Whether it is down, and not only because it has just come, or just begun to restart."""
    since = next((one.last_transition_time for one in node.status.conditions if one.type == "Ready"), None)
    return is_down(node) and case.is_old(since or node.metadata.creation_timestamp)


CHECK = Check(
    code="D204",
    severity="warning",
    summary="a node with devices is not Ready",
    why="Its devices stay published and its claims allocated until the node or its pods are deleted: they cannot be"
    " used by others, and pods that run there may hang in Terminating, because nobody unprepares their claims.",
    find=find,
    needs=("nodes", "resourceslices"),
)
