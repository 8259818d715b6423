"""Greedy construction: adds the load with the highest value per price, as often as there are items for it."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

import numpy as np

from allotment.packing.bin_types import BinTypeArrays, Floats
from allotment.packing.knapsack import valuable_loads
from allotment.packing.oracle import FeasibilityOracle, load_of
from allotment.packing.partial_solution import PartialSolution
from allotment.packing.problem import KeepGoing

#: Loads worth less than this fraction of the bin's price are searched for only if there is no better one.
_FIRST_THRESHOLD = 0.6


def construct(
    solution: PartialSolution,
    oracle: FeasibilityOracle,
    types: Sequence[BinTypeArrays],
    values: Floats,
    prices: Mapping[int, Floats],
    *,
    keep_going: KeepGoing,
    width: int = 100,
) -> None:
    """Add bins until all items are packed or no more bins are available. Bins with price 0 come first.

    ``values``: of one item by kind. ``prices``: by type number, per weight of each row. ``width``: of the knapsack
    search.
    """
    by_number = {arrays.number: arrays for arrays in types}

    def best(arrays: BinTypeArrays) -> tuple[float, tuple[tuple[int, int], ...]] | None:
        limits = np.array([max(solution.unpacked[kind], 0) for kind in arrays.kinds], dtype=np.int64)
        for threshold in (_FIRST_THRESHOLD * arrays.price, 0.0):
            found = valuable_loads(
                arrays, values[arrays.kinds], limits, prices[arrays.number], threshold, width=width, only_best=True
            )
            for counts in found.loads[:8]:
                load = load_of({int(arrays.kinds[i]): int(counts[i]) for i in np.flatnonzero(counts)})
                if not oracle.accepts(arrays.number, load):
                    continue
                return sum(values[kind] * n for kind, n in load) / max(arrays.price, 1e-6), load
            if len(found.loads):
                counts = found.loads[0]
                load = load_of({int(arrays.kinds[i]): int(counts[i]) for i in np.flatnonzero(counts)})
                load = oracle.feasible_part(arrays.number, load, [float(value) for value in values])
                if load:
                    return sum(values[kind] * n for kind, n in load) / max(arrays.price, 1e-6), load
        return None

    # The best load of a type never improves as items are used up: only the one on top is computed again.
    offers: list[tuple[float, int, tuple[tuple[int, int], ...]]] = []
    for arrays in types:
        if solution.available(arrays.number):
            offer = best(arrays)
            if offer is not None:
                offers.append((-offer[0], arrays.number, offer[1]))
    heapq.heapify(offers)
    while offers:
        _, number, load = heapq.heappop(offers)
        free = solution.available(number)
        if not free:
            continue
        times = min(free, *(solution.unpacked[kind] // n for kind, n in load))
        if times <= 0:
            offer = best(by_number[number])
            if offer is not None:
                heapq.heappush(offers, (-offer[0], number, offer[1]))
            continue
        solution.add(number, load, times)
        offer = best(by_number[number]) if solution.available(number) else None
        if offer is not None:
            heapq.heappush(offers, (-offer[0], number, offer[1]))
