"""The dashboard of each node's devices."""

from __future__ import annotations

from typing import Final

from allotment.exporter.panels import Dashboard, PanelRow, Variable, lines, table
from allotment.exporter.queries import query

_DEVICES: Final = (
    lines(
        "By state", "The states of `allot free`.",
        query('sum by (state) (allotment_devices{node=~"$node"})', "{{state}}"), stacked=True,
    ),
    lines(
        "Free by product", "Devices and partitions that can be allocated.",
        query('sum by (product) (allotment_devices{node=~"$node", state="free"})', "{{product}}"),
    ),
    lines(
        "Memory in use", "Of devices that are not partitions.",
        query(
            'sum by (node) (allotment_device_memory_used_bytes{node=~"$node"})'
            ' / sum by (node) (allotment_device_memory_bytes{node=~"$node"})',
            "{{node}}",
        ),
        unit="percentunit",
    ),
    lines(
        "Counters in use", "What partitions of the same hardware share.",
        query(
            'sum by (counter) (allotment_counters_used{node=~"$node"})'
            ' / (sum by (counter) (allotment_counters{node=~"$node"}) > 0)',
            "{{counter}}",
        ),
        unit="percentunit",
    ),
    lines(
        "Shares", "Of devices that several claims can share.",
        query('sum by (node) (allotment_device_shares{node=~"$node"})', "{{node}}"),
    ),
    lines(
        "Shared capacity in use", "Of devices that several claims can share.",
        query(
            'sum by (node, capacity) (allotment_shared_capacity_used{node=~"$node"})'
            ' / (sum by (node, capacity) (allotment_shared_capacity{node=~"$node"}) > 0)',
            "{{node}} {{capacity}}",
        ),
        unit="percentunit",
    ),
)  # fmt: skip
_WRONG: Final = (
    lines(
        "Tainted devices", "By effect, in use or not.",
        query('sum by (node, effect) (allotment_tainted_devices{node=~"$node"})', "{{node}} {{effect}}"),
    ),
    lines(
        "Pools that Kubernetes ignores", "incomplete: slices missing or too many; invalid: they contradict each other.",
        query(
            'sum by (node, driver, state) (allotment_pools{node=~"$node", state!="usable"})',
            "{{node}} {{driver}} {{state}}",
        ),
    ),
    lines(
        "Old slices", "Of generations that no longer count.",
        query(
            'sum by (node, driver) (allotment_resource_slices{node=~"$node", generation="old"})', "{{node}} {{driver}}"
        ),
    ),
    lines(
        "Missing devices", "Held by claims, but no longer published.",
        query("sum by (driver) (allotment_devices_missing)", "{{driver}}"),
    ),
)  # fmt: skip
_COST: Final = (
    table(
        "Price", "USD per hour: the node, and the idle part of it.",
        query('max by (node) (allotment_node_cost_dollars_per_hour{node=~"$node"})', "USD/h"),
        query('max by (node) (allotment_idle_cost_dollars_per_hour{node=~"$node"})', "idle USD/h"),
    ),
)  # fmt: skip

NODES: Final = Dashboard(
    "allotment-nodes",
    "Allotment / Nodes",
    "Devices by node: state, memory, counters, taints, pools and prices.",
    (PanelRow("Devices", _DEVICES), PanelRow("Problems", _WRONG), PanelRow("Cost", _COST)),
    (Variable("node", "Node", "allotment_devices"),),
)
