"""PromQL queries that are checked against the metric definitions: unknown metrics and labels raise an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from allotment.exporter.definitions import CLAIM_CONTROLLER, COMPONENTS, METRICS
from allotment.exporter.metric import Metric

#: Labels that Prometheus adds to every series, and the label of histogram buckets.
_BUILTIN_LABELS: Final = frozenset(("job", "instance", "pod", "le"))
_KNOWN: Final = {**METRICS, **{metric.name: metric for metric in (*COMPONENTS, *CLAIM_CONTROLLER)}}
_SERIES: Final = re.compile(r"\b(allotment_[a-z0-9_]+)(?:\{([^{}]*)\})?")
_MATCHER: Final = re.compile(r'\s*([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)\s*"[^"]*"\s*(?:,|$)')
_GROUPING: Final = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")
_LEGEND: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")


class UnknownName(ValueError):
    """Raised for a query that names a metric or label that is not defined."""


class Query(NamedTuple):
    """An expression, and the legend of its series: ``{{label}}`` is replaced by the label's value."""

    expression: str
    legend: str = ""


def query(expression: str, legend: str = "") -> Query:
    """Return a query with checked metrics and labels. Raises UnknownName.

    >>> query("sum by (stat) (allotment_devices)")
    Traceback (most recent call last):
    allotment.exporter.queries.UnknownName: unknown label stat of allotment_devices in: sum by (stat) ...
    """
    text = " ".join(expression.split())
    known = dict(_series(text))
    if not known:
        raise UnknownName(f"no Allotment metric in: {text}")
    labels = {label for metric in known.values() for label in metric.labels} | _BUILTIN_LABELS
    grouped = [label.strip() for found in _GROUPING.findall(text) for label in found.split(",") if label.strip()]
    for label in (*grouped, *_LEGEND.findall(legend)):
        if label not in labels:
            raise UnknownName(f"unknown label {label} of {', '.join(known)} in: {text} {legend}")
    return Query(text, legend)


def _series(text: str) -> Iterator[tuple[str, Metric]]:
    for name, matchers in _SERIES.findall(text):
        metric = _metric(name)
        if metric is None:
            raise UnknownName(f"unknown metric {name} in: {text}")
        left = matchers
        while left:
            found = _MATCHER.match(left)
            if found is None:
                raise UnknownName(f"invalid matchers {matchers!r} in: {text}")
            if found[1] not in metric.labels and found[1] not in _BUILTIN_LABELS:
                raise UnknownName(f"unknown label {found[1]} of {name} in: {text}")
            left = left[found.end() :]
        yield metric.name, metric


def _metric(name: str) -> Metric | None:
    found = _KNOWN.get(name)
    if found is not None:
        return found if found.kind != "histogram" else None
    base = re.sub("_(bucket|sum|count)$", "", name)
    found = _KNOWN.get(base)
    return found if found is not None and found.kind == "histogram" else None
