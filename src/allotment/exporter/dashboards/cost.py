"""What nodes cost, and who has which part of that."""

from __future__ import annotations

from typing import Final

from allotment.exporter.panels import Dashboard, Row, Variable, bars, lines, stat, table
from allotment.exporter.queries import query

_DOLLARS: Final = "currencyUSD"
_NOW: Final = (
    stat(
        "Nodes", "Price of all nodes whose price is known.", "sum(allotment_node_cost_dollars_per_hour)",
        unit=_DOLLARS, width=6,
    ),
    stat("Held", "By claims.", "sum(allotment_claims_cost_dollars_per_hour)", unit=_DOLLARS, width=6),
    stat("Idle", "Held by nobody.", "sum(allotment_idle_cost_dollars_per_hour)", unit=_DOLLARS, width=6),
    stat(
        "Claims of unknown price", "Their nodes have no price in the catalogue.",
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
        "The last day", "USD, by namespace.",
        query(
            "sum by (namespace)"
            ' (sum_over_time(allotment_claims_cost_dollars_per_hour{namespace=~"$namespace"}[1d:1m])) / 60',
            "{{namespace}}",
        ),
        unit=_DOLLARS,
    ),
    bars(
        "Idle", "USD per hour, the dearest nodes.",
        query("topk(20, sum by (node) (allotment_idle_cost_dollars_per_hour))", "{{node}}"), unit=_DOLLARS,
    ),
)  # fmt: skip
_KNOWN: Final = (
    lines(
        "Nodes", "region: the price of its own; elsewhere: the catalogue has that of another region only.",
        query("sum by (price) (allotment_nodes)", "{{price}}"), stacked=True,
    ),
    table(
        "By type", "USD per hour.",
        query("count by (instance_type, capacity_type, region) (allotment_node_cost_dollars_per_hour)", "nodes"),
        query("sum by (instance_type, capacity_type, region) (allotment_node_cost_dollars_per_hour)", "USD/h"),
    ),
)  # fmt: skip

COST: Final = Dashboard(
    "allotment-cost",
    "Allotment / Cost",
    "What nodes cost by the catalogue, and which part of that claims hold. Prices that are not known are not in it.",
    (Row("Now, per hour", _NOW), Row("Who has it", _WHO), Row("What is known", _KNOWN)),
    (Variable("namespace", "Namespace", "allotment_claims_cost_dollars_per_hour"),),
)
