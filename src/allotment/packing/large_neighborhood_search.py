"""Large neighborhood search: removes some bins, packs their items again, and keeps results that cost no more.

Also known as ruin and recreate: Schrimpf, Schneider, Stamm-Wilbrandt and Dueck, "Record breaking optimization results
using the ruin and recreate principle" (2000).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from random import Random

import numpy as np

from allotment.packing.bin_types import BinTypeArrays, Floats
from allotment.packing.construction import construct
from allotment.packing.oracle import FeasibilityOracle
from allotment.packing.partial_solution import PartialSolution
from allotment.packing.problem import KeepGoing, Load

_WIDTH = 60
#: Amplitudes of the random noise on item values, which keeps the construction from adding the same bins again.
_SPREADS = (0.08, 0.08, 0.08, 0.3, 1.0)


class LargeNeighborhoodSearch:
    """Steps on one solution, which never gets worse."""

    def __init__(
        self,
        solution: PartialSolution,
        oracle: FeasibilityOracle,
        types: Sequence[BinTypeArrays],
        values: Floats,
        prices: Mapping[int, Floats],
        seed: int,
        *,
        keep: Collection[int] = (),
    ) -> None:
        """``keep``: numbers of bin types that are never removed."""
        self.solution = solution
        self._oracle = oracle
        self._types = types
        self._values = values
        self._prices = prices
        self._random = Random(seed)
        self._keep = frozenset(keep)

    def step(self, keep_going: KeepGoing) -> bool:
        """Remove and reconstruct some bins; returns whether the solution improved."""
        before = self.solution
        after = before.copy()
        for (number, load), count in self._choose_bins().items():
            after.add(number, load, -count)
        spread = self._random.choice(_SPREADS)
        noise = np.array([1 + spread * (self._random.random() - 0.5) for _ in self._values])
        construct(
            after, self._oracle, self._types, self._values * noise, self._prices, keep_going=keep_going, width=_WIDTH
        )
        if after.rank() <= before.rank():
            self.solution = after
            return after.rank() < before.rank()
        return False

    def _choose_bins(self) -> dict[tuple[int, Load], int]:
        """Bins to remove: most of them with a low value per price, the others at random."""
        random = self._random
        problem = self.solution.problem
        count = random.randint(3, 14)
        groups = [line for line in self.solution.bins if line[0] not in self._keep]
        worth = {
            line: sum(self._values[kind] * n for kind, n in line[1]) / max(problem.bin_types[line[0]].price, 1e-9)
            for line in groups
        }
        groups.sort(key=lambda line: (worth[line], line))
        chosen: dict[tuple[int, Load], int] = {}
        for _ in range(count if groups else 0):
            if random.random() < 0.6:
                line = groups[int(len(groups) * random.random() ** 3)]
            else:
                line = random.choice(groups)
            if chosen.get(line, 0) < self.solution.bins[line]:
                chosen[line] = chosen.get(line, 0) + 1
        return chosen
