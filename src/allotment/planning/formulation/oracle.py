"""The exact check of one machine's load: resources, conflicts between pods, and device allocation by the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from allotment.packing.problem import Load
from allotment.planning.formulation.candidate_nodes import CandidateNode
from allotment.planning.offerings.hypothetical_nodes import LoadSequence
from allotment.planning.offerings.templates import UNDECIDED


class MachineOracle:
    """A `packing.problem.FeasibilityCheck` on candidate nodes. Results are cached.

    ``plain``: by bin type and kind, the resources that an item takes; ``claim_sets``: by bin type and kind, the number
    of the item's claim set, -1 for none; ``weights``: by bin type and kind, the order of items if the MIG layout is
    undecided.
    """

    def __init__(
        self,
        candidates: Sequence[CandidateNode],
        free: Sequence[tuple[int, ...]],
        plain: Sequence[Sequence[tuple[int, ...]]],
        claim_sets: Sequence[Sequence[int]],
        weights: Sequence[Sequence[int]],
        conflicts: Mapping[int, frozenset[int]],
    ) -> None:
        self._candidates = candidates
        self._free = free
        self._plain = plain
        self._claim_sets = claim_sets
        self._weights = weights
        self._conflicts = conflicts
        self._results: dict[tuple[int, Load], bool] = {}

    def __call__(self, number: int, load: Load, /) -> bool:
        """Whether a machine of the type holds the load."""
        key = (number, load)
        found = self._results.get(key)
        if found is None:
            found = self._results[key] = self._check(number, load)
        return found

    def _check(self, number: int, load: Load) -> bool:
        return (
            self._fits_resources(number, load)
            and not (self._conflicts and self._clash(load))
            and self._candidates[number].devices.holds(self.sequence(number, load))
        )

    def _fits_resources(self, number: int, load: Load) -> bool:
        free, plain = self._free[number], self._plain[number]
        if len(load) == 1:
            kind, count = load[0]
            return all(count * n <= left for n, left in zip(plain[kind], free, strict=True))
        taken = [(plain[kind], count) for kind, count in load]
        return all(sum(n[i] * count for n, count in taken) <= left for i, left in enumerate(free))

    def _clash(self, load: Load) -> bool:
        kinds = {kind for kind, _ in load}
        return any(
            (count > 1 and kind in others) or not others.isdisjoint(kinds - {kind})
            for kind, count in load
            if (others := self._conflicts.get(kind)) is not None
        )

    def sequence(self, number: int, load: Load) -> LoadSequence:
        """The load's claim sets in the scheduler's order.

        If the MIG layout is undecided the largest partitions come first: one layout is chosen for all of them.
        """
        claim_sets = self._claim_sets[number]
        ordered = load
        if self._candidates[number].mode == UNDECIDED:
            weights = self._weights[number]
            ordered = tuple(sorted(load, key=lambda entry: -weights[entry[0]]))
        found: list[tuple[int, int]] = []
        for kind, count in ordered:
            claim_set = claim_sets[kind]
            if claim_set < 0:
                continue
            if found and found[-1][0] == claim_set:
                found[-1] = (claim_set, found[-1][1] + count)
            else:
                found.append((claim_set, count))
        return tuple(found)
