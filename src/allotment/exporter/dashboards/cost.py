"""The dashboard of node costs and who accounts for them."""

from __future__ import annotations

from typing import Final

from allotment.exporter.panels import Dashboard, PanelRow, Variable, bars, lines, stat, table
from allotment.exporter.queries import query

_DOLLARS: Final = "currencyUSD"
_NOW: Final = (
    stat(
        "Nodes", "Total of all nodes with a known price.", "sum(allotment_node_cost_dollars_per_hour)",
        unit=_DOLLARS, width=6,
    ),
    stat("Held", "By claims.", "sum(allotment_claims_cost_dollars_per_hour)", unit=_DOLLARS, width=6),
    stat("Idle", "Not held by any claim.", "sum(allotment_idle_cost_dollars_per_hour)", unit=_DOLLARS, width=6),
    stat(
        "Claims without a price", "The catalogue has no price for their nodes.",
        'sum(allotment_claims_priced{price="unknown"}) or vector(0)', width=6,
    ),
)  # fmt: skip
_WHO: Final = (
    lines(
        "By namespace", "USD per hour.",
        query(
            'sum by (namespace) (allotment_claims_cost_dollars_per_hour{namespace=~"$namespace"})', "{{namespace}}"
        ),
        unit=_DOLLARS, stacked=True,
    ),
    lines(
        "By class", "USD per hour.",
        query(
            'sum by (device_class) (allotment_claims_cost_dollars_per_hour{namespace=~"$namespace"})',
            "{{device_class}}",
        ),
        unit=_DOLLARS, stacked=True,
    ),
    bars(
        "Last 24 hours", "USD, by namespace.",
        query(
            "sum by (namespace)"
            ' (sum_over_time(allotment_claims_cost_dollars_per_hour{namespace=~"$namespace"}[1d:1m])) / 60',
            "{{namespace}}",
        ),
        unit=_DOLLARS,
    ),
    bars(
        "Most expensive idle nodes", "USD per hour.",
        query("topk(20, sum by (node) (allotment_idle_cost_dollars_per_hour))", "{{node}}"), unit=_DOLLARS,
    ),
)  # fmt: skip
_KNOWN: Final = (
    lines(
        "Nodes", "region: priced in their own region; elsewhere: the catalogue has only another region's price.",
        query("sum by (price) (allotment_nodes)", "{{price}}"), stacked=True,
    ),
    table(
        "By instance type", "USD per hour.",
        query("count by (instance_type, capacity_type, region) (allotment_node_cost_dollars_per_hour)", "nodes"),
        query("sum by (instance_type, capacity_type, region) (allotment_node_cost_dollars_per_hour)", "USD/h"),
    ),
)  # fmt: skip

COST: Final = Dashboard(
    "allotment-cost",
    "Allotment / Cost",
    "What nodes cost by the catalogue, and how much of that claims hold. Unknown prices are left out.",
    (PanelRow("Now, per hour", _NOW), PanelRow("Who pays", _WHO), PanelRow("Prices", _KNOWN)),
    (Variable("namespace", "Namespace", "allotment_claims_cost_dollars_per_hour"),),
)
