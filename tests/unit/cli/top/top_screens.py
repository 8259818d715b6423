"""Maps and pending groups, as `allotment.screens` returns them."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from allotment.model.meta import Value
from allotment.screens.device_map import DeviceKind, DeviceMap, DeviceUse, LayoutDevice, MapDevice, MapNode, NodeLayout
from allotment.screens.header import ClusterHeader
from allotment.screens.holders import MapHolder
from allotment.screens.pending import GroupSummary, PendingScreen

CLUSTER: Final = ClusterHeader(
    name="default", place="lab", kube="1.36", revision=7, seen_at="2026-11-29T07:00:00Z", connected=True, error="",
    is_read_only=False, unread={}, notes=(),
)  # fmt: skip


def device(name: str, state: str = "free", **more: Any) -> MapDevice:
    """A device of the only kind."""
    return MapDevice(name, 0, state, **more)


class NodeOfDevices(Value, frozen=True, kw_only=False):
    """A node with its devices."""

    name: str
    devices: tuple[MapDevice, ...] = ()
    problems: tuple[str, ...] = ()
    unschedulable: str = ""


def map_of(*nodes: NodeOfDevices, cluster: ClusterHeader = CLUSTER) -> DeviceMap:
    """The map of these nodes, each of which has a layout of its own."""
    return DeviceMap(
        cluster=cluster, command="allot free",
        nodes=tuple(_drawn(node, number) for number, node in enumerate(nodes)),
        layouts=tuple(_layout(node) for node in nodes),
        totals=dict(Counter(each.state for node in nodes for each in node.devices)),
        kinds=(DeviceKind("gpu.nvidia.com", "NVIDIA A100-SXM4-40GB", "40Gi"),),
        holders=(MapHolder("ml/train", "ml", ("ml/train-0",)),),
    )  # fmt: skip


def _drawn(node: NodeOfDevices, layout: int) -> MapNode:
    states = {
        state: tuple(at for at, device in enumerate(node.devices) if device.state == state)
        for state in {device.state for device in node.devices} - {"free"}
    }
    uses = tuple(
        DeviceUse(at=at, holders=device.holders, taints=device.taints) for at, device in enumerate(node.devices)
    )
    return MapNode(
        name=node.name,
        layout=layout,
        problems=node.problems,
        states=states,
        devices=uses,
        unschedulable=node.unschedulable,
    )


def _layout(node: NodeOfDevices) -> NodeLayout:
    devices = (
        LayoutDevice(name=each.name, kind=each.kind, card=each.card, span=each.span, pool=each.pool)
        for each in node.devices
    )
    return NodeLayout(devices=tuple(devices))


def group(id: str, summary: str = "", count: int = 1, **more: Any) -> GroupSummary:
    """A group of pending pods with the code ``selector``."""
    return GroupSummary(id, "selector", summary, summary, count, "ml/chat", **more)


def pending_of(*groups: GroupSummary) -> PendingScreen:
    """The pending pods of these groups."""
    return PendingScreen(
        cluster=CLUSTER, command="allot explain", groups=groups, count=sum(each.count for each in groups)
    )
