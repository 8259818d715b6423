"""Many nodes that are there already, each with what it has left: they are filled first, then the rest is bought.

To weigh every free corner of a thousand nodes against every machine that can be bought would take longer than anybody
waits. What is free costs nothing, so that little is lost by using it first; the bound still counts what it could have
held at best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from allotment.packing.assignment_relaxation import ceiling
from allotment.packing.bin_types import Floats, Sort, sort_of
from allotment.packing.cutting_planes import Sharpened, Weighings
from allotment.packing.knapsack import fill
from allotment.packing.oracle import FeasibilityOracle, load_of
from allotment.packing.partial_solution import PartialSolution
from allotment.packing.problem import KeepGoing, Load, Problem

#: So many free bins of their own sorts are too many for the search.
_MANY = 300
_WIDTH = 30


def crowd(problem: Problem) -> list[int]:
    """Numbers of the bins that are to be filled first; none if they are few."""
    free = [number for number, bin in enumerate(problem.bin_types) if not bin.price and bin.max_count is not None]
    return free if len(free) > _MANY else []


class Crowd:
    """Bins that cost nothing, too many to search among."""

    def __init__(self, problem: Problem, numbers: Sequence[int]) -> None:
        self._problem = problem
        weighings = Weighings()
        self._sorts = [Sharpened(problem, sort, weighings) for n in numbers if len((sort := sort_of(problem, n)).kinds)]

    def pooled(self) -> list[Sort]:
        """As if all with the same rows were one: not true of any bin, but it tells what free room makes items worth."""
        pools: dict[tuple[str, ...], list[Sort]] = {}
        for sharp in self._sorts:
            names = tuple(row.name for row in self._problem.bin_types[sharp.sort.number].rows)
            pools.setdefault(names, []).append(sharp.sort)
        found: list[Sort] = []
        for sorts in pools.values():
            widest = max(sorts, key=lambda sort: (len(sort.kinds), -sort.number))
            same = [sort.capacity for sort in sorts if len(sort.capacity) == len(widest.capacity)]
            many = np.full(len(widest.kinds), np.iinfo(np.int64).max)
            found.append(replace(widest, most=1, capacity=sum(same, np.zeros_like(widest.capacity)), alone=many))
        return found

    def take(self, basket: PartialSolution, truth: FeasibilityOracle, values: Floats, keep_going: KeepGoing) -> None:
        """Fill each with what is worth most, of what is left by then."""
        for sharp in self._sorts:
            sort = sharp.sort
            while keep_going() and basket.available(sort.number):
                load = self._best(basket, truth, sharp, values)
                if not load:
                    break
                basket.add(sort.number, load)

    def _best(self, basket: PartialSolution, truth: FeasibilityOracle, sharp: Sharpened, values: Floats) -> Load:
        sort = sharp.sort
        limits = np.maximum(np.array([basket.unpacked[kind] for kind in sort.kinds], dtype=np.int64), 0)
        if not limits.any():
            return ()
        worth = values[sort.kinds]
        found = fill(sort, worth, limits, sharp.prices(worth, 0), 0.0, width=_WIDTH, only_best=True)
        if not len(found.loads):
            return ()
        load = _load(sort, found.loads[0])
        return truth.feasible_part(sort.number, load, [float(value) for value in values])

    def ceilings(self, values: Floats) -> dict[int, float]:
        """What no load of each is worth more than."""
        return {
            sharp.sort.number: ceiling(sharp.sort, values, sharp.prices(values[sharp.sort.kinds], 0))
            for sharp in self._sorts
        }


def _load(sort: Sort, counts: np.ndarray) -> Load:
    return load_of({int(sort.kinds[i]): int(counts[i]) for i in np.flatnonzero(counts)})
