"""A first answer: again and again the load that is worth most for its price, as often as there are items for it."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

import numpy as np

from allotment.packing.bin_types import Floats, Sort
from allotment.packing.knapsack import fill
from allotment.packing.oracle import FeasibilityOracle, load_of
from allotment.packing.partial_solution import PartialSolution
from allotment.packing.problem import KeepGoing

#: Of what a bin costs: below this worth a load is looked for only if there is nothing better.
_FAIR = 0.6


def construct(
    basket: PartialSolution,
    truth: FeasibilityOracle,
    sorts: Sequence[Sort],
    values: Floats,
    prices: Mapping[int, Floats],
    *,
    keep_going: KeepGoing,
    width: int = 100,
) -> None:
    """Buy until nothing is left, or nothing more may be had. Bins that cost nothing come first."""
    by_number = {sort.number: sort for sort in sorts}

    def best(sort: Sort) -> tuple[float, tuple[tuple[int, int], ...]] | None:
        limits = np.array([max(basket.unpacked[kind], 0) for kind in sort.kinds], dtype=np.int64)
        for asked in (_FAIR * sort.price, 0.0):
            found = fill(sort, values[sort.kinds], limits, prices[sort.number], asked, width=width, only_best=True)
            for counts in found.loads[:8]:
                load = load_of({int(sort.kinds[i]): int(counts[i]) for i in np.flatnonzero(counts)})
                if not truth.accepts(sort.number, load):
                    continue
                return sum(values[kind] * n for kind, n in load) / max(sort.price, 1e-6), load
            if len(found.loads):
                counts = found.loads[0]
                load = load_of({int(sort.kinds[i]): int(counts[i]) for i in np.flatnonzero(counts)})
                load = truth.feasible_part(sort.number, load, [float(value) for value in values])
                if load:
                    return sum(values[kind] * n for kind, n in load) / max(sort.price, 1e-6), load
        return None

    # What a sort can offer never gets better as items are used up: only the one on top has to be asked again.
    offers: list[tuple[float, int, tuple[tuple[int, int], ...]]] = []
    for sort in sorts:
        if basket.available(sort.number):
            offer = best(sort)
            if offer is not None:
                offers.append((-offer[0], sort.number, offer[1]))
    heapq.heapify(offers)
    while offers:
        _, number, load = heapq.heappop(offers)
        free = basket.available(number)
        if not free:
            continue
        times = min(free, *(basket.unpacked[kind] // n for kind, n in load))
        if times <= 0:
            offer = best(by_number[number])
            if offer is not None:
                heapq.heappush(offers, (-offer[0], number, offer[1]))
            continue
        basket.add(number, load, times)
        offer = best(by_number[number]) if basket.available(number) else None
        if offer is not None:
            heapq.heappush(offers, (-offer[0], number, offer[1]))
