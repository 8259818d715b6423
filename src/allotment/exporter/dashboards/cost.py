"""The dashboard of node costs, by namespace and class of the claims, and of idle devices."""

from __future__ import annotations

from typing import Final

from allotment.exporter.panels import Dashboard, PanelRow, Variable, bars, lines, stat, table
from allotment.exporter.queries import query

_DOLLARS: Final = "currencyUSD"
_NOW: Final = (
    stat(
        "Nodes", "Total price of all nodes whose price is known.", "sum(allotment_node_cost_dollars_per_hour)",
        unit=_DOLLARS, width=6,
    ),
    stat(
        "Held", "Total price of the devices that claims hold.", "sum(allotment_claims_cost_dollars_per_hour)",
        unit=_DOLLARS, width=6,
    ),
    stat(
        "Idle", "Total price of the devices that no claim holds.", "sum(allotment_idle_cost_dollars_per_hour)",
        unit=_DOLLARS, width=6,
    ),
    stat(
        "Claims without a price", "Claims whose nodes have no price in the catalog.",
        'sum(allotment_claims_priced{price="unknown"}) or vector(0)', width=6,
    ),
)  # fmt: skip
_WHO: Final = (
    lines(
        "By namespace", "Price of the devices that claims hold, in USD per hour.",
        query(
            'sum by (namespace) (allotment_claims_cost_dollars_per_hour{namespace=~"$namespace"})', "{{namespace}}"
        ),
        unit=_DOLLARS, stacked=True,
    ),
    lines(
        "By class", "Price of the devices that claims hold, in USD per hour.",
        query(
            'sum by (device_class) (allotment_claims_cost_dollars_per_hour{namespace=~"$namespace"})',
            "{{device_class}}",
        ),
        unit=_DOLLARS, stacked=True,
    ),
    bars(
        "Last 24 hours", "Cost in USD by namespace.",
        query(
            "sum by (namespace)"
            ' (sum_over_time(allotment_claims_cost_dollars_per_hour{namespace=~"$namespace"}[1d:1m])) / 60',
            "{{namespace}}",
        ),
        unit=_DOLLARS,
    ),
    bars(
        "Nodes with the most expensive idle devices", "Price of the idle devices in USD per hour.",
        query("topk(20, sum by (node) (allotment_idle_cost_dollars_per_hour))", "{{node}}"), unit=_DOLLARS,
    ),
)  # fmt: skip
_KNOWN: Final = (
    lines(
        "Nodes",
        "Nodes by source of their price. region: the node's own region. elsewhere: another region. unknown: no price.",
        query("sum by (price) (allotment_nodes)", "{{price}}"), stacked=True,
    ),
    table(
        "By instance type", "Number of nodes, and their total price in USD per hour.",
        query("count by (instance_type, capacity_type, region) (allotment_node_cost_dollars_per_hour)", "nodes"),
        query("sum by (instance_type, capacity_type, region) (allotment_node_cost_dollars_per_hour)", "USD/h"),
    ),
)  # fmt: skip

COST: Final = Dashboard(
    "allotment-cost",
    "Allotment / Cost",
    "Catalog prices of nodes, and the share attributed to claims. Unknown prices are excluded.",
    (PanelRow("Now, per hour", _NOW), PanelRow("Consumers", _WHO), PanelRow("Prices", _KNOWN)),
    (Variable("namespace", "Namespace", "allotment_claims_cost_dollars_per_hour"),),
)
