"""Existing bins, if there are too many for the search: they are filled first, then the rest is packed into new ones.

Comparing the free capacity of a thousand nodes with every machine type would take too long. Free capacity costs
nothing, so little is lost by using it first; the lower bound still counts the most that it could have held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from allotment.packing.assignment_relaxation import load_value_bound
from allotment.packing.bin_types import BinTypeArrays, Floats, arrays_of
from allotment.packing.cutting_planes import CutPool, TightenedBinType
from allotment.packing.knapsack import valuable_loads
from allotment.packing.oracle import FeasibilityOracle, load_of
from allotment.packing.partial_solution import PartialSolution
from allotment.packing.problem import KeepGoing, Load, Problem

#: The search handles at most this many types of existing bins.
_MAX_SEARCHED = 300
_WIDTH = 30


def prefilled_bins(problem: Problem) -> list[int]:
    """Numbers of the existing bins if there are too many for the search; they are filled before it."""
    free = [
        number
        for number, bin_type in enumerate(problem.bin_types)
        if not bin_type.price and bin_type.max_count is not None
    ]
    return free if len(free) > _MAX_SEARCHED else []


class ExistingBins:
    """Bins with price 0 that are not part of the search."""

    def __init__(self, problem: Problem, numbers: Sequence[int]) -> None:
        self._problem = problem
        cuts = CutPool()
        self._types = [
            TightenedBinType(problem, arrays, cuts) for n in numbers if len((arrays := arrays_of(problem, n)).kinds)
        ]

    def pooled(self) -> list[BinTypeArrays]:
        """One combined bin for all bins with the same rows: a relaxation, to compute item values from free capacity."""
        pools: dict[tuple[str, ...], list[BinTypeArrays]] = {}
        for tightened in self._types:
            names = tuple(row.name for row in self._problem.bin_types[tightened.arrays.number].rows)
            pools.setdefault(names, []).append(tightened.arrays)
        found: list[BinTypeArrays] = []
        for types in pools.values():
            widest = max(types, key=lambda arrays: (len(arrays.kinds), -arrays.number))
            same = [arrays.capacity for arrays in types if len(arrays.capacity) == len(widest.capacity)]
            unlimited = np.full(len(widest.kinds), np.iinfo(np.int64).max)
            found.append(
                replace(widest, max_count=1, capacity=sum(same, np.zeros_like(widest.capacity)), max_items=unlimited)
            )
        return found

    def fill(self, solution: PartialSolution, oracle: FeasibilityOracle, values: Floats, keep_going: KeepGoing) -> None:
        """Fill each bin in order with its most valuable load of unpacked items."""
        for tightened in self._types:
            arrays = tightened.arrays
            while keep_going() and solution.available(arrays.number):
                load = self._best_load(solution, oracle, tightened, values)
                if not load:
                    break
                solution.add(arrays.number, load)

    def _best_load(
        self, solution: PartialSolution, oracle: FeasibilityOracle, tightened: TightenedBinType, values: Floats
    ) -> Load:
        arrays = tightened.arrays
        limits = np.maximum(np.array([solution.unpacked[kind] for kind in arrays.kinds], dtype=np.int64), 0)
        if not limits.any():
            return ()
        worth = values[arrays.kinds]
        found = valuable_loads(arrays, worth, limits, tightened.row_prices(worth, 0), 0.0, width=_WIDTH, only_best=True)
        if not len(found.loads):
            return ()
        load = _load(arrays, found.loads[0])
        return oracle.feasible_part(arrays.number, load, [float(value) for value in values])

    def value_bounds(self, values: Floats) -> dict[int, float]:
        """By bin number, an upper bound on the value of a load."""
        return {
            tightened.arrays.number: load_value_bound(
                tightened.arrays, values, tightened.row_prices(values[tightened.arrays.kinds], 0)
            )
            for tightened in self._types
        }


def _load(arrays: BinTypeArrays, counts: np.ndarray) -> Load:
    return load_of({int(arrays.kinds[i]): int(counts[i]) for i in np.flatnonzero(counts)})
