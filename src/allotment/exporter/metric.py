"""The definition of a metric, from which output, dashboards, alerts and the page are generated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple


class Metric(NamedTuple):
    """A metric family.

    ``name`` ends in its unit (Prometheus' conventions) and in ``_total`` for counters; ``labels`` are in order;
    ``cardinality`` describes the number of its series (``one per node and device class``).
    """

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    help: str
    labels: tuple[str, ...]
    cardinality: str


class Sample(NamedTuple):
    """A value; ``labels`` in the order of the definition."""

    labels: tuple[str, ...]
    value: float


class Distribution(NamedTuple):
    """A histogram: cumulative counts for each of ``bounds`` (ascending, in its unit), the total count, and the sum."""

    labels: tuple[str, ...]
    bounds: tuple[float, ...]
    cumulative_counts: tuple[int, ...]
    total_count: int
    sum: float


class Family(NamedTuple):
    """A metric with its current values."""

    metric: Metric
    samples: Sequence[Sample | Distribution]
