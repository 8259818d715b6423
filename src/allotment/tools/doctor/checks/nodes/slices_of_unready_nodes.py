"""Nodes that are not ready, and whose devices are still offered or held."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.tools.doctor.case import Case, condition_of
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.objects import Node
from allotment.tools.doctor.wording import about, counted, remedy, subject

_TAINTS: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


def find(case: Case) -> Iterable[Sign]:
    """All such nodes together."""
    down = [name for name, node in case.nodes.items() if name in case.drivers_on and _is_down(node)]
    if not down:
        return
    there = set(down)
    devices = [id for id, found in case.devices.items() if found.slice.spec.node_name in there]
    held = sum(id in case.results for id in devices)
    verb = "is" if len(down) == 1 else "are"
    text = f"{about('node', down)} {verb} not Ready, with {counted(len(devices), 'device')}, {held} of them in use"
    yield Sign(
        subject("node", down), text, remedy("", f"kubectl describe node {down[0]}"), objects=tuple(down)
    )  # fmt: skip


def _is_down(node: Node) -> bool:
    """Whether its kubelet says so, has fallen silent, or has never come."""
    if condition_of(node, "Ready"):
        return condition_of(node, "Ready") != "True"
    return any(taint.key in _TAINTS for taint in node.spec.taints)


CHECK = Check(
    code="D204",
    severity="warning",
    summary="a node with devices is not Ready",
    why="Its devices stay published and its claims allocated until the node or its pods are deleted: they cannot be"
    " used by others, and pods that run there may hang in Terminating, because nobody unprepares their claims.",
    find=find,
    needs=("nodes", "resourceslices"),
)
