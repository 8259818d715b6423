"""What a metric is: the one definition from which output, dashboards, alerts and their page are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple


class Metric(NamedTuple):
    """A family of samples.

    ``name`` ends in its unit (Prometheus' conventions) and in ``_total`` for counters; ``labels`` are in order;
    ``most`` says what bounds the number of its samples, in words (``one per node and device class``).
    """

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    help: str
    labels: tuple[str, ...]
    most: str


class Sample(NamedTuple):
    """A value of a metric; ``labels`` in the definition's order."""

    labels: tuple[str, ...]
    value: float


class Distribution(NamedTuple):
    """Of a histogram: how many are below each of ``bounds`` (rising, in its unit), all of them, and their sum."""

    labels: tuple[str, ...]
    bounds: tuple[float, ...]
    below: tuple[int, ...]
    all: int
    sum: float


class Family(NamedTuple):
    """A metric with its values of one moment."""

    metric: Metric
    samples: Sequence[Sample | Distribution]
