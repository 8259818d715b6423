"""The dashboards, by file name."""

from collections.abc import Mapping
from typing import Final

from allotment.exporter.dashboards.components import COMPONENTS
from allotment.exporter.dashboards.cost import COST
from allotment.exporter.dashboards.nodes import NODES
from allotment.exporter.dashboards.overview import OVERVIEW
from allotment.exporter.panels import Dashboard

DASHBOARDS: Final[Mapping[str, Dashboard]] = {
    f"{dashboard.uid}.json": dashboard for dashboard in (OVERVIEW, NODES, COST, COMPONENTS)
}
