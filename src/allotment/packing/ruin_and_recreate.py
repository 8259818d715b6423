"""Ruin and recreate: take some bins away, buy anew for what was in them, keep it if it is no dearer.

Schrimpf, Schneider, Stamm-Wilbrandt and Dueck, "Record breaking optimization results using the ruin and recreate
principle" (2000).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from random import Random

import numpy as np

from allotment.packing.bin_types import Floats, Sort
from allotment.packing.construction import construct
from allotment.packing.oracle import FeasibilityOracle
from allotment.packing.partial_solution import PartialSolution
from allotment.packing.problem import KeepGoing, Load

_WIDTH = 60
#: How much values of items are changed by chance, so that not the same is bought again.
_SPREADS = (0.08, 0.08, 0.08, 0.3, 1.0)


class Ruin:
    """Steps on one basket. Gives up nothing that was better."""

    def __init__(
        self,
        basket: PartialSolution,
        truth: FeasibilityOracle,
        sorts: Sequence[Sort],
        values: Floats,
        prices: Mapping[int, Floats],
        seed: int,
        *,
        keep: Collection[int] = (),
    ) -> None:
        """``keep``: bins that are never ruined."""
        self.basket = basket
        self._truth = truth
        self._sorts = sorts
        self._values = values
        self._prices = prices
        self._random = Random(seed)
        self._keep = frozenset(keep)

    def step(self, keep_going: KeepGoing) -> bool:
        """Ruin and recreate once; whether it is better now."""
        before = self.basket
        after = before.copy()
        for (number, load), count in self._victims().items():
            after.add(number, load, -count)
        spread = self._random.choice(_SPREADS)
        noise = np.array([1 + spread * (self._random.random() - 0.5) for _ in self._values])
        construct(
            after, self._truth, self._sorts, self._values * noise, self._prices, keep_going=keep_going, width=_WIDTH
        )
        if after.rank() <= before.rank():
            self.basket = after
            return after.rank() < before.rank()
        return False

    def _victims(self) -> dict[tuple[int, Load], int]:
        """Some of the bins that are least worth their price, and some others."""
        random = self._random
        problem = self.basket.problem
        many = random.randint(3, 14)
        lines = [line for line in self.basket.bins if line[0] not in self._keep]
        worth = {
            line: sum(self._values[kind] * n for kind, n in line[1]) / max(problem.bin_types[line[0]].price, 1e-9)
            for line in lines
        }
        lines.sort(key=lambda line: (worth[line], line))
        chosen: dict[tuple[int, Load], int] = {}
        for _ in range(many if lines else 0):
            if random.random() < 0.6:
                line = lines[int(len(lines) * random.random() ** 3)]
            else:
                line = random.choice(lines)
            if chosen.get(line, 0) < self.basket.bins[line]:
                chosen[line] = chosen.get(line, 0) + 1
        return chosen
