"""The devices of nodes."""

from __future__ import annotations

from typing import Final

from allotment.exporter.panels import Dashboard, Row, Variable, lines, table
from allotment.exporter.queries import query

_DEVICES: Final = (
    lines(
        "By state", "As `allot free` has them.",
        query('sum by (state) (allotment_devices{node=~"$node"})', "{{state}}"), stacked=True,
    ),
    lines(
        "Free by product", "Devices and partitions that may be had.",
        query('sum by (product) (allotment_devices{node=~"$node", state="free"})', "{{product}}"),
    ),
    lines(
        "Memory that is held", "Of devices that are not partitions.",
        query(
            'sum by (node) (allotment_device_memory_used_bytes{node=~"$node"})'
            ' / sum by (node) (allotment_device_memory_bytes{node=~"$node"})',
            "{{node}}",
        ),
        unit="percentunit",
    ),
    lines(
        "Counters that are drawn", "What partitions of the same hardware share.",
        query(
            'sum by (counter) (allotment_counters_used{node=~"$node"})'
            ' / (sum by (counter) (allotment_counters{node=~"$node"}) > 0)',
            "{{counter}}",
        ),
        unit="percentunit",
    ),
    lines(
        "Shares", "Of devices that several claims may hold.",
        query('sum by (node) (allotment_device_shares{node=~"$node"})', "{{node}}"),
    ),
    lines(
        "Shared capacity that is consumed", "Of devices that several claims may hold.",
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
        "Tainted devices", "By effect, whether they are in use or not.",
        query('sum by (node, effect) (allotment_tainted_devices{node=~"$node"})', "{{node}} {{effect}}"),
    ),
    lines(
        "Pools that Kubernetes ignores", "incomplete: slices are missing, or too many; invalid: they contradict.",
        query(
            'sum by (node, driver, state) (allotment_pools{node=~"$node", state!="usable"})',
            "{{node}} {{driver}} {{state}}",
        ),
    ),
    lines(
        "Old slices", "Of generations that nobody looks at any more.",
        query(
            'sum by (node, driver) (allotment_resource_slices{node=~"$node", generation="old"})', "{{node}} {{driver}}"
        ),
    ),
    lines(
        "Devices that are gone", "Claims hold them, and no slice publishes them.",
        query("sum by (driver) (allotment_devices_missing)", "{{driver}}"),
    ),
)  # fmt: skip
_COST: Final = (
    table(
        "Price", "USD per hour, of the node and of what nobody holds of it.",
        query('max by (node) (allotment_node_cost_dollars_per_hour{node=~"$node"})', "USD/h"),
        query('max by (node) (allotment_idle_cost_dollars_per_hour{node=~"$node"})', "idle USD/h"),
    ),
)  # fmt: skip

NODES: Final = Dashboard(
    "allotment-nodes",
    "Allotment / Nodes",
    "The devices of nodes: their states, memory, counters, taints, pools and prices.",
    (Row("Devices", _DEVICES), Row("What is wrong", _WRONG), Row("Cost", _COST)),
    (Variable("node", "Node", "allotment_devices"),),
)
