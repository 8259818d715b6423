"""Nodes that are not ready but still have published or allocated devices."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.phrases import counted
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import is_down
from allotment.tools.doctor.objects import Node
from allotment.tools.doctor.wording import named, remedy


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """All such nodes as one symptom."""
    down = [name for name, node in cluster.nodes.items() if name in cluster.drivers_on and _stays_down(cluster, node)]
    if not down:
        return
    unready = set(down)
    devices = [id for id, found in cluster.devices.items() if found.slice.spec.node_name in unready]
    held = sum(id in cluster.results for id in devices)
    verb, have = ("is", "has") if len(down) == 1 else ("are", "have")
    text = f"{named('node', down)} {verb} not Ready and {have} {counted(len(devices), 'device')}, {held} in use"
    words = "Find out why the kubelet does not report the node as Ready:"
    yield Symptom.of("node", down, text, remedy(words, f"kubectl describe node {down[0]}"))


def _stays_down(cluster: ClusterIndex, node: Node) -> bool:
    """Whether the node is down and neither new nor just restarting."""
    since = next((c.last_transition_time for c in node.status.conditions if c.type == "Ready"), None)
    return is_down(node) and cluster.is_old(since or node.metadata.creation_timestamp)


CHECK = ClusterCheck(
    code="D204",
    severity="warning",
    summary="a node with devices is not Ready",
    why="The node's devices stay published and its claims stay allocated until the node or its pods are deleted: "
    "other pods cannot use them, and pods on the node may stay Terminating because their claims are not "
    "unprepared.",
    find=find,
    needs=("nodes", "resourceslices"),
)
