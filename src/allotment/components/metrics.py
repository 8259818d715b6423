"""What a component measures of itself, and what an exporter measures of the cluster, as Prometheus reads it.

Programs tell what they did (`cluster.observing`); here that becomes histograms and counters. Every name ends in its
unit, every label has few values: an object's name is never one.
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

#: Seconds: from a status that is written to a plan that is looked for.
_WORK: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_REQUESTS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
#: Levels that programs tell: how they are called, and of what.
_LEVELS: Final = {"queue": (QUEUE.name, QUEUE.help, *QUEUE.labels)}
#: A program that is started again is no work of its own.
_RUN: Final = "run"


class Metrics:
    """The metrics of one process."""

    def __init__(self, component: str, observing: Instrumentation, families: Callable[[], Sequence[Family]]) -> None:
        disable_created_metrics()  # they double the number of series and say when the process began
        registry = self._registry = CollectorRegistry()
        self._work = Histogram(*_said(WORK), buckets=_WORK, registry=registry)
        self._restarts = Counter(*_said(RESTARTS), registry=registry)
        self._requests = Counter(*_said(REQUESTS), registry=registry)
        self._took = Histogram(*_said(REQUEST_SECONDS), buckets=_REQUESTS, registry=registry)
        self._leader = Gauge(*_said(LEADER), registry=registry)
        build = Gauge(*_said(BUILD_INFO), registry=registry)
        build.labels(__version__, component).set(1)
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self._seen = _Seen(observing, families)
        self._registry.register(self._seen)
        observing.listeners.append(self._heard)

    def record_request(self, method: str, code: int, seconds: float) -> None:
        """The client has an answer."""
        self._requests.labels(method, str(code)).inc()
        self._took.labels(method).observe(seconds)

    def add_leader_gauge(self, lease: str, leading: Callable[[], bool]) -> None:
        """Whoever asks is told whether this copy leads."""
        self._leader.labels(lease).set_function(lambda: float(leading()))

    async def update(self) -> None:
        """Take in what programs let be looked at; in their own thread, since nothing of theirs is made for two."""
        self._seen.look()

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """All of it, and its content type: OpenMetrics for those who prefer that."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def _heard(self, done: WorkRecord) -> None:
        if done.name == _RUN:
            self._restarts.labels(done.subject).inc()
            return
        self._work.labels(done.name, done.result).observe(done.seconds)


def _said(metric: Definition) -> tuple[str, str, tuple[str, ...]]:
    return metric.name, metric.help, metric.labels


class _Seen(Collector):
    """What was there to be looked at when somebody last looked."""

    def __init__(self, observing: Instrumentation, families: Callable[[], Sequence[Family]]) -> None:
        self._observing = observing
        self._families = families
        self._seen: tuple[Sequence[tuple[str, str, float]], Sequence[Family]] = (), ()

    def look(self) -> None:
        """Look, now."""
        levels = [(of, which, read()) for (of, which), read in self._observing.gauges.items()]
        self._seen = levels, self._families()

    def collect(self) -> Iterator[Metric]:
        """As Prometheus' library has it."""
        levels, families = self._seen
        found: dict[str, GaugeMetricFamily] = {}
        for of, which, value in levels:
            name, help, label = _LEVELS.get(of, (f"allotment_{of}", f"{of.capitalize()} now.", "of"))
            found.setdefault(name, GaugeMetricFamily(name, help, labels=(label,))).add_metric((which,), value)
        yield from found.values()
        yield from map(exposed, families)


def text_of(families: Sequence[Family]) -> str:
    """An exporter's metrics alone, in Prometheus' text format."""
    return generate_latest(_Given(families)).decode()


class _Given(Collector):
    """Metrics that do not change any more."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """As Prometheus' library has it."""
        return map(exposed, self._families)


def exposed(family: Family) -> Metric:
    """A family of ours as the library's."""
    metric = family.metric
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for sample in family.samples:
            assert isinstance(sample, Distribution)
            buckets = [(_bound(bound), count) for bound, count in zip(sample.bounds, sample.cumulative_counts, strict=True)]
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
