"""PromQL that is checked against the definitions: a panel or alert that asks for what nobody serves cannot be built."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from allotment.exporter.definitions import COMPONENTS, METRICS
from allotment.exporter.metric import Metric

#: Labels that Prometheus adds to all that it scrapes, and that of buckets.
_GIVEN: Final = frozenset(("job", "instance", "pod", "le"))
_KNOWN: Final = {**METRICS, **{metric.name: metric for metric in COMPONENTS}}
_SERIES: Final = re.compile(r"\b(allotment_[a-z0-9_]+)(?:\{([^{}]*)\})?")
_MATCHER: Final = re.compile(r'\s*([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)\s*"[^"]*"\s*(?:,|$)')
_GROUPING: Final = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")
_LEGEND: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")


class UnknownName(ValueError):
    """Raised for a query that names a metric or label that is not defined."""


class Query(NamedTuple):
    """An expression, and how its series are called: ``{{label}}`` stands for a label's value."""

    expression: str
    legend: str = ""


def query(expression: str, legend: str = "") -> Query:
    """A query that asks for what there is. Raises UnknownName.

    >>> query("sum by (stat) (allotment_devices)")
    Traceback (most recent call last):
    allotment.exporter.queries.UnknownName: label stat, which none of allotment_devices has, in: sum by (stat) ...
    """
    text = " ".join(expression.split())
    known = dict(_series(text))
    if not known:
        raise UnknownName(f"no metric of ours in: {text}")
    labels = {label for metric in known.values() for label in metric.labels} | _GIVEN
    grouped = [label.strip() for found in _GROUPING.findall(text) for label in found.split(",") if label.strip()]
    for label in (*grouped, *_LEGEND.findall(legend)):
        if label not in labels:
            raise UnknownName(f"label {label}, which none of {', '.join(known)} has, in: {text} {legend}")
    return Query(text, legend)


def _series(text: str) -> Iterator[tuple[str, Metric]]:
    for name, matchers in _SERIES.findall(text):
        metric = _metric(name)
        if metric is None:
            raise UnknownName(f"metric {name}, which is not defined, in: {text}")
        left = matchers
        while left:
            found = _MATCHER.match(left)
            if found is None:
                raise UnknownName(f"matchers {matchers!r}, which cannot be read, in: {text}")
            if found[1] not in metric.labels and found[1] not in _GIVEN:
                raise UnknownName(f"label {found[1]}, which {name} has not, in: {text}")
            left = left[found.end() :]
        yield metric.name, metric


def _metric(name: str) -> Metric | None:
    found = _KNOWN.get(name)
    if found is not None:
        return found if found.kind != "histogram" else None
    base = re.sub("_(bucket|sum|count)$", "", name)
    found = _KNOWN.get(base)
    return found if found is not None and found.kind == "histogram" else None
