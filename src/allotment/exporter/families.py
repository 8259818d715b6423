"""The metrics of a cluster, computed from its objects: the same values that a running exporter serves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from allotment.exporter.cardinality_limits import MAX_SERIES, limit_series
from allotment.exporter.causes import CauseCache, examine
from allotment.exporter.claims import claims
from allotment.exporter.costs import NodePrices, costs
from allotment.exporter.device_usage import ClusterUsage
from allotment.exporter.devices import devices
from allotment.exporter.latency import Latencies
from allotment.exporter.metric import Family
from allotment.exporter.state import ExporterState
from allotment.fleet.catalog import InstanceType
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey


def families(
    values: Iterable[Object],
    features: Features,
    catalog: Sequence[InstanceType] = (),
    *,
    per_claim: bool = False,
    max_series: int = MAX_SERIES,
) -> tuple[Family, ...]:
    """Return the metrics of these objects.

    Every kind of pending pod is examined, without a time limit; every claim counts for the latencies.
    """
    state = ExporterState.of(values, features)
    causes = CauseCache()
    chosen = causes.select(state.pending_pods.values(), len(state.pending_pods))
    found = examine(state.values(), tuple(chosen.values()), features, tuple(state.grouped_pods.values()))
    causes.record(dict(zip(chosen, found, strict=True)))
    latencies = Latencies()
    for claim in state.claims.values():
        latencies.observe(claim)
    builder = FamilyBuilder(state, NodePrices(catalog), latencies, per_claim=per_claim, max_series=max_series)
    return builder.families(causes.of(state.pending_pods.values()))


class FamilyBuilder:
    """Computes the metrics of a state, with caches between computations."""

    def __init__(
        self, state: ExporterState, prices: NodePrices, latencies: Latencies, *, per_claim: bool, max_series: int
    ) -> None:
        self._state = state
        self._usage = ClusterUsage(state)
        self._prices = prices
        self._latencies = latencies
        self._per_claim = per_claim
        self._max_series = max_series

    def families(self, causes: Mapping[ObjectKey, str]) -> tuple[Family, ...]:
        """Return the current metrics; ``causes``: the causes of pending pods."""
        usages = self._usage.by_node()
        found = (
            *devices(self._state, usages),
            *claims(self._state, causes),
            self._latencies.family(),
            *costs(self._state, usages, self._prices, per_claim=self._per_claim),
        )
        return limit_series(found, self._max_series)
