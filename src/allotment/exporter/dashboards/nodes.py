"""The dashboard of each node's devices."""

from __future__ import annotations

from typing import Final

from allotment.exporter.panels import Dashboard, PanelRow, Variable, lines, table
from allotment.exporter.queries import query

_DEVICES: Final = (
    lines(
        "By state", "Devices by state; the states are those of `allot free`.",
        query('sum by (state) (allotment_devices{node=~"$node"})', "{{state}}"), stacked=True,
    ),
    lines(
        "Free by product", "Devices and partitions that can be allocated.",
        query('sum by (product) (allotment_devices{node=~"$node", state="free"})', "{{product}}"),
    ),
    lines(
        "Memory in use", "Fraction of device memory in use, excluding partitions.",
        query(
            'sum by (node) (allotment_device_memory_used_bytes{node=~"$node"})'
            ' / sum by (node) (allotment_device_memory_bytes{node=~"$node"})',
            "{{node}}",
        ),
        unit="percentunit",
    ),
    lines(
        "Counters in use", "Fraction of shared counters in use, for hardware that is divided into partitions.",
        query(
            'sum by (counter) (allotment_counters_used{node=~"$node"})'
            ' / (sum by (counter) (allotment_counters{node=~"$node"}) > 0)',
            "{{counter}}",
        ),
        unit="percentunit",
    ),
    lines(
        "Shares", "Number of allocated shares of shareable devices.",
        query('sum by (node) (allotment_device_shares{node=~"$node"})', "{{node}}"),
    ),
    lines(
        "Shared capacity in use", "Fraction of capacity in use, for devices that several claims can share.",
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
        "Tainted devices", "Tainted devices by effect, whether or not they are in use.",
        query('sum by (node, effect) (allotment_tainted_devices{node=~"$node"})', "{{node}} {{effect}}"),
    ),
    lines(
        "Pools that Kubernetes ignores", "incomplete: missing or surplus slices. invalid: contradictory slices.",
        query(
            'sum by (node, driver, state) (allotment_pools{node=~"$node", state!="usable"})',
            "{{node}} {{driver}} {{state}}",
        ),
    ),
    lines(
        "Old slices", "ResourceSlices that belong to an outdated generation of their pool.",
        query(
            'sum by (node, driver) (allotment_resource_slices{node=~"$node", generation="old"})', "{{node}} {{driver}}"
        ),
    ),
    lines(
        "Missing devices", "Devices that are held by claims but no longer published.",
        query("sum by (driver) (allotment_devices_missing)", "{{driver}}"),
    ),
)  # fmt: skip
_COST: Final = (
    table(
        "Price", "Price of the node, and of its idle devices, in USD per hour.",
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
