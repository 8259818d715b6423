"""Dashboards as values: panels in rows, each with what it asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from allotment.exporter.queries import Query, query

Kind: TypeAlias = Literal["stat", "timeseries", "table", "bargauge"]


class Panel(NamedTuple):
    """One picture. ``unit`` is Grafana's word for it; ``limits``: from which value on it is yellow, and red.

    ``stacked``: its series together are the whole.
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
    """One number; with ``bad`` any above zero is red."""
    return Panel(title, about, "stat", (query(expression),), width, 4, unit, (1.0, 1.0) if bad else None)


def lines(title: str, about: str, *queries: Query, unit: str = "short", stacked: bool = False) -> Panel:
    """Series over time; ``stacked`` where they together are the whole."""
    return Panel(title, about, "timeseries", queries, unit=unit, stacked=stacked)


def table(title: str, about: str, *queries: Query) -> Panel:
    """What is so now: a column for each label and each query, under its legend."""
    return Panel(title, about, "table", queries)


def bars(title: str, about: str, *queries: Query, unit: str = "short") -> Panel:
    """What is so now, as bars."""
    return Panel(title, about, "bargauge", queries, unit=unit)


def quantile(of: float, histogram: str, by: str = "", where: str = "") -> str:
    """The expression for a quantile of a histogram, over the window of a panel."""
    grouped = f"le, {by}" if by else "le"
    return f"histogram_quantile({of}, sum by ({grouped}) (rate({histogram}_bucket{{{where}}}[$__rate_interval])))"


class Row(NamedTuple):
    """Panels under a title."""

    title: str
    panels: tuple[Panel, ...]


class Variable(NamedTuple):
    """What can be chosen: the values of the label ``name`` of a metric, any of them by default."""

    name: str
    title: str
    metric: str


class Dashboard(NamedTuple):
    """``uid`` is its name in links, and in its file."""

    uid: str
    title: str
    about: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = ()

    def queries(self) -> Iterator[Query]:
        """All that it asks."""
        return (query for row in self.rows for panel in row.panels for query in panel.queries)
