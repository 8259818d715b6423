"""Dashboards as values: panels in rows, with their queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from allotment.exporter.queries import Query, query

Kind: TypeAlias = Literal["stat", "timeseries", "table", "bargauge"]


class Panel(NamedTuple):
    """One panel. ``unit`` is Grafana's name; ``limits``: the values from which it is yellow and red.

    ``stacked``: the series add up to a whole.
    """

    title: str
    about: str
    kind: Kind
    queries: tuple[Query, ...]
    width: int = 12
    height: int = 8
    unit: str = "short"
    limits: tuple[float, float] | None = None
    stacked: bool = False


def stat(title: str, about: str, expression: str, *, unit: str = "short", width: int = 4, bad: bool = False) -> Panel:
    """A single number; with ``bad`` any value above zero is red."""
    return Panel(title, about, "stat", (query(expression),), width, 4, unit, (1.0, 1.0) if bad else None)


def lines(title: str, about: str, *queries: Query, unit: str = "short", stacked: bool = False) -> Panel:
    """Series over time; ``stacked`` if they add up to a whole."""
    return Panel(title, about, "timeseries", queries, unit=unit, stacked=stacked)


def table(title: str, about: str, *queries: Query) -> Panel:
    """Current values: a column for each label and each query, titled by its legend."""
    return Panel(title, about, "table", queries)


def bars(title: str, about: str, *queries: Query, unit: str = "short") -> Panel:
    """Current values as bars."""
    return Panel(title, about, "bargauge", queries, unit=unit)


def quantile(of: float, histogram: str, by: str = "", where: str = "") -> str:
    """Return the expression for a quantile of a histogram over the panel's rate interval."""
    grouped = f"le, {by}" if by else "le"
    return f"histogram_quantile({of}, sum by ({grouped}) (rate({histogram}_bucket{{{where}}}[$__rate_interval])))"


class PanelRow(NamedTuple):
    """Panels under a title."""

    title: str
    panels: tuple[Panel, ...]


class Variable(NamedTuple):
    """A filter: the values of the label ``name`` of a metric; all by default."""

    name: str
    title: str
    metric: str


class Dashboard(NamedTuple):
    """``uid`` is its name in links and its file name."""

    uid: str
    title: str
    about: str
    rows: tuple[PanelRow, ...]
    variables: tuple[Variable, ...] = ()

    def queries(self) -> Iterator[Query]:
        """Return all queries."""
        return (query for row in self.rows for panel in row.panels for query in panel.queries)
