"""The metrics of a cluster, from its objects: the same values that a running exporter serves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from allotment.exporter.cardinality_limits import MOST_SERIES, bounded
from allotment.exporter.causes import Causes, examine
from allotment.exporter.claims import claims
from allotment.exporter.cluster_usage import Tallies
from allotment.exporter.costs import costs
from allotment.exporter.devices import devices
from allotment.exporter.latency import Latencies
from allotment.exporter.metric import Family
from allotment.exporter.prices import Prices
from allotment.exporter.state import State
from allotment.fleet.catalog import InstanceType
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey


def families(
    values: Iterable[Object],
    features: Features,
    catalog: Sequence[InstanceType] = (),
    *,
    per_claim: bool = False,
    most: int = MOST_SERIES,
) -> tuple[Family, ...]:
    """The metrics of these objects.

    Every kind of pod that waits is examined, however long that takes; every claim counts for the latencies.
    """
    state = State.of(values, features)
    causes = Causes()
    chosen = causes.round(state.waiting.values(), len(state.waiting))
    found = examine(state.values(), tuple(chosen.values()), features)
    causes.learn(dict(zip(chosen, found, strict=True)))
    latencies = Latencies()
    for claim in state.claims.values():
        latencies.see(claim)
    measured = Measured(state, Prices(catalog), latencies, per_claim=per_claim, most=most)
    return measured.families(causes.of(state.waiting.values()))


class Measured:
    """A state and what is kept between two looks at it."""

    def __init__(self, state: State, prices: Prices, latencies: Latencies, *, per_claim: bool, most: int) -> None:
        self._state = state
        self._tallies = Tallies(state)
        self._prices = prices
        self._latencies = latencies
        self._per_claim = per_claim
        self._most = most

    def families(self, causes: Mapping[ObjectKey, str]) -> tuple[Family, ...]:
        """The metrics now; ``causes`` why pods wait."""
        tallies = self._tallies.all()
        found = (
            *devices(self._state, tallies),
            *claims(self._state, causes),
            self._latencies.family(),
            *costs(self._state, tallies, self._prices, per_claim=self._per_claim),
        )
        return bounded(found, self._most)
