"""Simulates pod placement with the device plugin: each pod on the first eligible node with enough left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allotment.explanation.node_eligibility import daemon_node
from allotment.model.core import Pod
from allotment.tools.migrate.plugin_requests import PluginRequest
from allotment.tools.migrate.simulation.plugin_node import PluginNode, form_of
from allotment.tools.migrate.simulation.subjects import SimulatedWorkload
from allotment.tools.migrate.simulation.trial_result import PodResult, name_of


def place_all(subjects: Iterable[SimulatedWorkload], nodes: Sequence[PluginNode]) -> dict[str, PodResult]:
    """Place all pods; results by pod name. A DaemonSet has results only for its eligible nodes."""
    found: dict[str, PodResult] = {}
    for subject in subjects:
        passed, refused = 0, ""  # equal pods: a node that is too full for one is too full for the next
        for pod in subject.before:
            if subject.daemon:
                result = _daemon(pod, subject.wants, nodes)
                if result is not None:
                    found[result.pod] = result
                continue
            result = PodResult(pod=name_of(pod), reason=refused)
            if not refused:
                result, passed = place(pod, subject.wants, nodes, passed)
                refused = result.reason
            found[result.pod] = result
    return found


def place(
    pod: Pod, wants: Sequence[PluginRequest], nodes: Sequence[PluginNode], first: int = 0
) -> tuple[PodResult, int]:
    """Place a pod on the first node that fits, starting at index ``first``; the result and the node's index."""
    reasons: dict[str, int] = {}
    for number in range(first, len(nodes)):
        got = nodes[number].place(pod, wants)
        if not isinstance(got, str):
            return PodResult(pod=name_of(pod), node=nodes[number].name, devices=got), number
        reasons[got] = reasons.get(got, 0) + 1
    often = sorted(reasons.items(), key=lambda row: -row[1])[:3]
    words = [f"{why} ({count} nodes)" if count > 1 else why for why, count in often]
    return PodResult(pod=name_of(pod), reason="; ".join(words) or "no nodes"), len(nodes)


def _daemon(pod: Pod, wants: Sequence[PluginRequest], nodes: Sequence[PluginNode]) -> PodResult | None:
    """Place a daemon pod on its node; None if the DaemonSet creates no pod there."""
    node = next((node for node in nodes if node.name == daemon_node(pod)), None)
    if node is None or not node.admits(pod, form_of(wants)):
        return None
    return place(pod, wants, [node])[0]
