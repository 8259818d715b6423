"""For one shape of pods: which nodes would do, how good each is, and why not; mended where nodes have changed.

Thousands of equal pods on hundreds of nodes would otherwise mean to ask every node about every pod. A pod that is
placed changes one node, so that the next one costs one look, whatever the number of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from allotment.node_fit.filters import judge
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.nodes import Machine, Machines
from allotment.node_fit.pod_requirements import Demand
from allotment.node_fit.scores import score


class Table:
    """One bit, and one answer, for every place."""

    __slots__ = ("_at", "_by_devices", "_machines", "by_score", "demand", "fits", "refusals", "scores")

    def __init__(self, demand: Demand, machines: Machines, by_devices: Set[str] = frozenset()) -> None:
        self.demand = demand
        self._machines = machines
        self._by_devices = by_devices
        self._at = -1
        self.fits = 0
        """Places of nodes that would do."""
        self.refusals: list[Refusal | None] = []
        self.scores: list[int] = []
        self.by_score: dict[int, int] = {}
        """Places by score, of nodes that would do."""

    def catch_up(self) -> None:
        """Look at the nodes that have changed since the last time."""
        journal = self._machines.journal
        if journal.end == self._at:
            return
        changed = journal.since(self._at) if self._at >= 0 else None
        self._at = journal.end
        places = self._machines.places
        grown = places - len(self.refusals)
        if grown > 0:
            self.refusals.extend([None] * grown)
            self.scores.extend([0] * grown)
        for place in range(places) if changed is None else set(changed):
            self._look(place)

    def _look(self, place: int) -> None:
        bit = 1 << place
        if self.fits & bit:
            before = self.scores[place]
            left = self.by_score[before] & ~bit
            if left:
                self.by_score[before] = left
            else:
                del self.by_score[before]
            self.fits ^= bit
        machine = self._machines.at(place)
        if machine is None:
            self.refusals[place] = None
            return
        refusal = judge(self.demand, machine, self._by_devices)
        self.refusals[place] = refusal
        if refusal is None:
            value = score(self.demand, machine)
            self.scores[place] = value
            self.by_score[value] = self.by_score.get(value, 0) | bit
            self.fits |= bit

    def best(self, among: int, start: int = 0) -> int:
        """The place with the best score among those given; -1 if none of them would do.

        Of equals it is the first from ``start`` on and around.
        """
        among &= self.fits
        if not among:
            return -1
        for value in sorted(self.by_score, reverse=True):
            found = self.by_score[value] & among
            if found:
                found = found >> start << start or found
                return (found & -found).bit_length() - 1
        return -1

    def refused(self) -> Iterator[tuple[Machine, Refusal]]:
        """The nodes that would not do, and why."""
        for place, refusal in enumerate(self.refusals):
            if refusal is not None:
                machine = self._machines.at(place)
                if machine is not None:
                    yield machine, refusal


class Tables:
    """The tables of the most recent shapes."""

    _KEPT = 256

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._known: dict[tuple[Demand, Set[str]], Table] = {}

    def of(self, demand: Demand, by_devices: frozenset[str] = frozenset()) -> Table:
        """The table of a shape, up to date."""
        key = (demand, by_devices)
        found = self._known.pop(key, None)
        if found is None:
            if len(self._known) >= self._KEPT:
                del self._known[next(iter(self._known))]
            found = Table(demand, self._machines, by_devices)
        self._known[key] = found  # the most recent is last
        found.catch_up()
        return found


def places_in(mask: int) -> Iterator[int]:
    """The places of a bit mask, in order."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
