"""New loads until no load of any sort is worth more than it costs; what that proves on the way.

Prices of items come from the master program; `pricing` looks for loads that are worth more. Prices jump about from
round to round, so new loads are looked for under a mean of them and of the prices that proved most so far (Wentges,
"Weighted Dantzig-Wolfe decomposition", 1997).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from allotment.packing.bin_types import Floats
from allotment.packing.cutting_planes import Sharpened
from allotment.packing.dual_bound import proven
from allotment.packing.master_problem import Duals, Master
from allotment.packing.oracle import FeasibilityOracle
from allotment.packing.pricing import Effort, price
from allotment.packing.problem import KeepGoing, Load, Problem

#: How much of the prices that proved most is kept.
_CALM = 0.5
#: New loads of one sort in one round.
_NEW = 6
#: A sort whose loads are all worth less of their price is not asked again for so many rounds.
_AWAKE, _SLEEP = 0.97, 6
#: First in a hurry; only where that finds nothing more, with care.
_EFFORTS = (Effort(200, 200, 0, 0), Effort(500, 5000, 6, 200), Effort(2000, 20000, 12, 5000))


@dataclass(frozen=True, slots=True)
class Proof:
    """Prices of items, what no load is worth more than under them, and the tolls: what `proof.proven` takes."""

    bound: int
    items: Floats
    ceilings: dict[int, float]
    tolls: dict[str, float]

    def of(self, problem: Problem, counts: Sequence[int]) -> int:
        """What they prove about other counts."""
        return proven(problem, counts, [float(value) for value in self.items], self.ceilings, self.tolls)


class Generation:
    """Rounds of new loads. ``proof``: the best so far. ``asks``: loads must be held in truth, not by rows only."""

    def __init__(self, master: Master, sorts: Sequence[Sharpened], truth: FeasibilityOracle, proof: Proof, *, asks: bool) -> None:
        self.master = master
        self.problem = master.problem
        self.proof = proof
        self.done = False
        self.duals: Duals | None = None
        self._sorts = sorts
        self._truth = truth
        self._asks = asks
        self._calm: Floats | None = None
        self._asleep: dict[int, int] = {}
        self.effort = 0

    def round(self, keep_going: KeepGoing) -> int:
        """Solve, look for loads worth more than they cost, add them. How many were added."""
        duals = self.master.duals()
        if duals is None:
            self.done = True
            return 0
        self.duals = duals
        if self.effort == 0:
            mean = duals.items if self._calm is None else _CALM * self._calm + (1 - _CALM) * duals.items
            self._calm = mean
        else:
            mean = _CALM * self.proof.items + (1 - _CALM) * duals.items
        before = self.proof.bound
        added = self._price(mean, duals, keep_going)
        if not added and self.proof.bound == before:
            added = self._price(duals.items, duals, keep_going)
        if added or self.proof.bound > before:
            self.effort = min(self.effort, 1)
        elif keep_going():
            self.effort += 1
            self.done = self.effort == len(_EFFORTS)
            self.effort = min(self.effort, len(_EFFORTS) - 1)
        return added

    def _price(self, values: Floats, duals: Duals, keep_going: KeepGoing) -> int:
        ceilings: dict[int, float] = {}
        new: list[tuple[int, Load]] = []
        whole = True
        lowered = values.copy()
        for sharp in self._sorts:
            if not keep_going():
                return self.master.add(new)
            number = sharp.sort.number
            if self.effort == 0 and self._asleep.get(number, 0) > 0:
                self._asleep[number] -= 1
                whole = False
                continue
            asked = duals.asked(self.problem, number)
            without: Set[int] = self._truth.excluded_kinds.get(number, set()) if self._asks else set()
            found = price(sharp, values, asked, self._truth.fits_rows, _EFFORTS[self.effort], most=_NEW, without=without)
            ceilings[number] = found.bound
            if found.bound > found.above and self.problem.bin_types[number].max_count is None:
                # Only the kinds of loads that are worth too much have to be worth less.
                factor = found.above / found.bound
                lowered[found.kinds] = np.minimum(lowered[found.kinds], values[found.kinds] * factor)
                ceilings[number] = found.above * (1 + 1e-12)
            if not found.loads and found.bound < _AWAKE * asked:
                self._asleep[number] = _SLEEP
            whole = whole and not without
            for load in found.loads:
                if sum(float(duals.items[kind]) * n for kind, n in load) > asked * (1 + 1e-7):
                    new += self._held(number, load, duals.items, asked)
        if whole:
            proof = Proof(0, lowered, ceilings, dict(duals.tolls))
            bound = proof.of(self.problem, self.master.counts)
            if bound > self.proof.bound:
                self.proof = replace(proof, bound=bound)
        return self.master.add(new)

    def hurry(self) -> None:
        """Begin again without care, as the question has changed."""
        self.effort = 0
        self.done = False

    def _held(self, number: int, load: Load, items: Floats, asked: float) -> list[tuple[int, Load]]:
        """The load, or as much of it as is truly held, if that is still worth it."""
        if not self._asks:
            return [(number, load)]
        held = self._truth.feasible_part(number, load, [float(value) for value in items])
        if held == load or sum(float(items[kind]) * n for kind, n in held) > asked * (1 + 1e-7):
            return [(number, held)]
        return []
