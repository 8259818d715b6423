"""Column generation: adds loads with negative reduced cost until there are none, and derives lower bounds.

Item prices come from the master problem; `pricing` searches for loads that are worth more than their bin. Prices
oscillate between rounds, so the search uses a mean of the current prices and those of the best bound so far (Wentges,
"Weighted Dantzig-Wolfe decomposition", 1997).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from allotment.packing.bin_types import Floats
from allotment.packing.cutting_planes import TightenedBinType
from allotment.packing.dual_bound import dual_bound
from allotment.packing.master_problem import MasterDuals, MasterProblem
from allotment.packing.oracle import FeasibilityOracle
from allotment.packing.pricing import Effort, price_loads
from allotment.packing.problem import KeepGoing, Load, Problem

#: The weight of earlier prices in the smoothed prices.
_SMOOTHING = 0.5
#: Maximum number of new loads of one bin type in one round.
_MAX_NEW = 6
#: A bin type is skipped for this many rounds if no load is worth at least this fraction of its price.
_SKIP_BELOW, _SKIP_ROUNDS = 0.97, 6
#: Quick searches first; more thorough ones when they find no more loads.
_EFFORTS = (Effort(200, 200, 0, 0), Effort(500, 5000, 6, 200), Effort(2000, 20000, 12, 5000))


@dataclass(frozen=True, slots=True)
class DualProof:
    """Item prices, upper bounds on load values under them, and group prices: the input of `dual_bound`."""

    bound: int
    items: Floats
    value_bounds: dict[int, float]
    group_prices: dict[str, float]

    def bound_for(self, problem: Problem, counts: Sequence[int]) -> int:
        """The lower bound that these prices prove for other counts."""
        return dual_bound(problem, counts, [float(value) for value in self.items], self.value_bounds, self.group_prices)


class ColumnGeneration:
    """Rounds of column generation. ``proof``: the best so far. ``check_loads``: only add loads the oracle accepts."""

    def __init__(
        self,
        master: MasterProblem,
        types: Sequence[TightenedBinType],
        oracle: FeasibilityOracle,
        proof: DualProof,
        *,
        check_loads: bool,
    ) -> None:
        self.master = master
        self.problem = master.problem
        self.proof = proof
        self.done = False
        self.duals: MasterDuals | None = None
        self._types = types
        self._oracle = oracle
        self._check_loads = check_loads
        self._smoothed: Floats | None = None
        self._skipped_rounds: dict[int, int] = {}
        self.effort = 0

    def round(self, keep_going: KeepGoing) -> int:
        """Solve the master problem and add loads with negative reduced cost; returns how many were added."""
        duals = self.master.duals()
        if duals is None:
            self.done = True
            return 0
        self.duals = duals
        if self.effort == 0:
            mean = (
                duals.items if self._smoothed is None else _SMOOTHING * self._smoothed + (1 - _SMOOTHING) * duals.items
            )
            self._smoothed = mean
        else:
            mean = _SMOOTHING * self.proof.items + (1 - _SMOOTHING) * duals.items
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

    def _price(self, values: Floats, duals: MasterDuals, keep_going: KeepGoing) -> int:
        value_bounds: dict[int, float] = {}
        new: list[tuple[int, Load]] = []
        is_complete = True
        lowered = values.copy()
        for tightened in self._types:
            if not keep_going():
                return self.master.add(new)
            number = tightened.arrays.number
            if self.effort == 0 and self._skipped_rounds.get(number, 0) > 0:
                self._skipped_rounds[number] -= 1
                is_complete = False
                continue
            threshold = duals.value_threshold(self.problem, number)
            excluded: Set[int] = self._oracle.excluded_kinds.get(number, set()) if self._check_loads else set()
            found = price_loads(
                tightened,
                values,
                threshold,
                self._oracle.fits_rows,
                _EFFORTS[self.effort],
                max_loads=_MAX_NEW,
                excluded=excluded,
            )
            value_bounds[number] = found.bound
            if found.bound > found.threshold and self.problem.bin_types[number].max_count is None:
                # Only the kinds in loads that are worth too much need lower prices.
                factor = found.threshold / found.bound
                lowered[found.kinds] = np.minimum(lowered[found.kinds], values[found.kinds] * factor)
                value_bounds[number] = found.threshold * (1 + 1e-12)
            if not found.loads and found.bound < _SKIP_BELOW * threshold:
                self._skipped_rounds[number] = _SKIP_ROUNDS
            is_complete = is_complete and not excluded
            for load in found.loads:
                if sum(float(duals.items[kind]) * n for kind, n in load) > threshold * (1 + 1e-7):
                    new += self._feasible_part(number, load, duals.items, threshold)
        if is_complete:
            proof = DualProof(0, lowered, value_bounds, dict(duals.group_prices))
            bound = proof.bound_for(self.problem, self.master.counts)
            if bound > self.proof.bound:
                self.proof = replace(proof, bound=bound)
        return self.master.add(new)

    def restart(self) -> None:
        """Continue with quick searches after the master problem changed."""
        self.effort = 0
        self.done = False

    def _feasible_part(self, number: int, load: Load, items: Floats, threshold: float) -> list[tuple[int, Load]]:
        """The load or the part of it that the oracle accepts, if its reduced cost is negative."""
        if not self._check_loads:
            return [(number, load)]
        part = self._oracle.feasible_part(number, load, [float(value) for value in items])
        if part == load or sum(float(items[kind]) * n for kind, n in part) > threshold * (1 + 1e-7):
            return [(number, part)]
        return []
