"""Prometheus metrics of a component, and of the cluster for an exporter.

Records of work (`cluster.instrumentation`) become histograms and counters. Every name ends in its unit, and every label
has few values: object names are never labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from allotment import __version__
from allotment.exporter.definitions import BUILD_INFO, LEADER, QUEUE, REQUEST_SECONDS, REQUESTS, RESTARTS, WORK
from allotment.exporter.metric import Distribution, Family
from allotment.exporter.metric import Metric as Definition

if TYPE_CHECKING:
    from allotment.cluster.instrumentation import Instrumentation, WorkRecord

#: Seconds: from writing a status to searching a plan.
_WORK: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_REQUESTS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
#: Names, help texts and labels of gauges.
_LEVELS: Final = {"queue": (QUEUE.name, QUEUE.help, *QUEUE.labels)}
#: A restart of a program is counted, not measured as work.
_RUN: Final = "run"


class Metrics:
    """The metrics of one process."""

    def __init__(self, component: str, observing: Instrumentation, families: Callable[[], Sequence[Family]]) -> None:
        disable_created_metrics()  # they double the number of series and only contain the start time of the process
        registry = self._registry = CollectorRegistry()
        self._work = Histogram(*_arguments(WORK), buckets=_WORK, registry=registry)
        self._restarts = Counter(*_arguments(RESTARTS), registry=registry)
        self._requests = Counter(*_arguments(REQUESTS), registry=registry)
        self._took = Histogram(*_arguments(REQUEST_SECONDS), buckets=_REQUESTS, registry=registry)
        self._leader = Gauge(*_arguments(LEADER), registry=registry)
        build = Gauge(*_arguments(BUILD_INFO), registry=registry)
        build.labels(__version__, component).set(1)
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self._snapshot = _Snapshot(observing, families)
        self._registry.register(self._snapshot)
        observing.listeners.append(self._record)

    def record_request(self, method: str, code: int, seconds: float) -> None:
        """Record the response to a request; code 0 means that there was none."""
        self._requests.labels(method, str(code)).inc()
        self._took.labels(method).observe(seconds)

    def add_leader_gauge(self, lease: str, leading: Callable[[], bool]) -> None:
        """Add a gauge of whether this copy is the leader."""
        self._leader.labels(lease).set_function(lambda: float(leading()))

    def add_families(self, families: Callable[[], Sequence[Family]]) -> None:
        """Add metrics that are read with the gauges."""
        self._snapshot.families.append(families)

    async def update(self) -> None:
        """Read the gauges; in the event loop, because programs are not thread-safe."""
        self._snapshot.update()

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """All metrics and their content type; OpenMetrics if ``accept`` prefers it."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def _record(self, done: WorkRecord) -> None:
        if done.name == _RUN:
            self._restarts.labels(done.subject).inc()
            return
        self._work.labels(done.name, done.result).observe(done.seconds)


def _arguments(metric: Definition) -> tuple[str, str, tuple[str, ...]]:
    return metric.name, metric.help, metric.labels


class _Snapshot(Collector):
    """The gauges and families as of the last update."""

    def __init__(self, observing: Instrumentation, families: Callable[[], Sequence[Family]]) -> None:
        self._observing = observing
        self.families = [families]
        """The functions that return the metric families."""
        self._snapshot: tuple[Sequence[tuple[str, str, float]], Sequence[Family]] = (), ()

    def update(self) -> None:
        """Read the current values."""
        levels = [(of, label_value, read()) for (of, label_value), read in self._observing.gauges.items()]
        self._snapshot = levels, [family for families in self.families for family in families()]

    def collect(self) -> Iterator[Metric]:
        """As Prometheus' library has it."""
        levels, families = self._snapshot
        found: dict[str, GaugeMetricFamily] = {}
        for of, label_value, value in levels:
            name, help, label = _LEVELS.get(of, (f"allotment_{of}", f"{of.capitalize()} now.", "of"))
            found.setdefault(name, GaugeMetricFamily(name, help, labels=(label,))).add_metric((label_value,), value)
        yield from found.values()
        yield from map(exposed, families)


def text_of(families: Sequence[Family]) -> str:
    """Metric families in Prometheus' text format."""
    return generate_latest(_Constant(families)).decode()


class _Constant(Collector):
    """A collector of metric families with fixed values."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """As Prometheus' library has it."""
        return map(exposed, self._families)


def exposed(family: Family) -> Metric:
    """Convert a family to the Prometheus library's type."""
    metric = family.metric
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for sample in family.samples:
            assert isinstance(sample, Distribution)
            buckets = [
                (_bound(bound), count) for bound, count in zip(sample.bounds, sample.cumulative_counts, strict=True)
            ]
            histogram.add_metric(sample.labels, [*buckets, ("+Inf", sample.total_count)], sample.sum)
        return histogram
    made: GaugeMetricFamily | CounterMetricFamily
    if metric.kind == "counter":
        made = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    else:
        made = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for sample in family.samples:
        assert not isinstance(sample, Distribution)
        made.add_metric(sample.labels, sample.value)
    return made


def _bound(bound: float) -> str:
    return str(float(bound))
