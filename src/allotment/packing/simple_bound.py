"""A lower bound without a solver: the best bound of any single row, at the lowest price per weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from allotment.packing.dual_bound import round_up_to_prices
from allotment.packing.dual_feasible import DualFeasibleFunction, derived_functions, standard_functions
from allotment.packing.problem import BinType, Pieces, Problem

#: Safety margin for rounding in sums of doubles, as a fraction of the sum.
_MARGIN = 1e-9
#: Maximum number of derived dual feasible functions for one row.
_DERIVED = 12


@dataclass(frozen=True, slots=True)
class _WeightedBin:
    """A bin type under one measure: its capacity and the weights of its kinds."""

    bin_type: BinType
    capacity: int
    weights: dict[int, int]


def simple_bound(problem: Problem, counts: Sequence[int]) -> int:
    """A lower bound on the cost of any packing of these counts by kind."""
    best = 0.0
    kinds = [kind for kind, n in enumerate(counts) if n > 0]
    for name in dict.fromkeys(row.name for bin_type in problem.bin_types for row in bin_type.rows):
        for measure in range(_measure_count(problem, kinds, name)):
            weighted = [_weighted(bin_type, kinds, name, measure) for bin_type in problem.bin_types]
            rates = [each.bin_type.price / each.capacity if each.capacity else 0.0 for each in weighted]
            best = max(best, _bound_at(counts, kinds, weighted, rates))
            # Bin types with a maximum count are rated like unlimited ones; the bound subtracts the difference.
            unlimited = [
                rate
                for rate, each in zip(rates, weighted, strict=True)
                if each.bin_type.max_count is None and each.capacity
            ]
            if unlimited and len(unlimited) < len(weighted):
                least = min(unlimited)
                raised = [
                    rate if each.bin_type.max_count is None else max(rate, least)
                    for rate, each in zip(rates, weighted, strict=True)
                ]
                best = max(best, _bound_at(counts, kinds, weighted, raised))
    return round_up_to_prices(problem, max(ceil(best), _single_item_bound(problem, kinds)))


def _single_item_bound(problem: Problem, kinds: Sequence[int]) -> int:
    """The highest price, over all kinds, of the cheapest bin that can hold an item of the kind."""
    cheapest = (
        min((bin_type.price for bin_type in problem.bin_types if bin_type.needs[kind] is not None), default=0)
        for kind in kinds
    )
    return max(cheapest, default=0)


def _bound_at(
    counts: Sequence[int], kinds: Sequence[int], weighted: Sequence[_WeightedBin], rates: Sequence[float]
) -> float:
    """All items at the lowest rate of any bin that can hold them, less the value of limited bins above their price."""
    least: dict[int, float] = {}
    for each, rate in zip(weighted, rates, strict=True):
        for kind, weight in each.weights.items():
            value = weight * rate
            if value < least.get(kind, value + 1):
                least[kind] = value
    worth = sum(counts[kind] * least.get(kind, 0.0) for kind in kinds)
    paid = 0.0
    for each, rate in zip(weighted, rates, strict=True):
        if each.bin_type.max_count is not None:
            paid += each.bin_type.max_count * max(0.0, rate * each.capacity - each.bin_type.price)
    return worth - paid - _MARGIN * (worth + paid)


def _pieces(bin_type: BinType, row: int, kinds: Sequence[int]) -> dict[int, Pieces]:
    return {kind: needs[row] for kind in kinds if (needs := bin_type.needs[kind]) is not None}


def _functions(bin_type: BinType, row: int, kinds: Sequence[int]) -> list[DualFeasibleFunction | None]:
    """The measures of a row: None for the size, then the standard dual feasible functions and those for its pieces."""
    size = bin_type.rows[row].size
    sizes = {piece for pieces in _pieces(bin_type, row, kinds).values() for piece in pieces if piece <= size}
    return [None, *standard_functions(size), *list(derived_functions(size, sizes))[:_DERIVED]]


def _measure_count(problem: Problem, kinds: Sequence[int], name: str) -> int:
    """The number of measures of a row; bin types with fewer repeat their last each."""
    return max(
        len(_functions(bin_type, number, kinds))
        for bin_type in problem.bin_types
        for number, row in enumerate(bin_type.rows)
        if row.name == name
    )


def _weighted(bin_type: BinType, kinds: Sequence[int], name: str, measure: int) -> _WeightedBin:
    """The bin type under the measure with this number. Without the row, its capacity and all weights are 0."""
    for number, row in enumerate(bin_type.rows):
        if row.name != name:
            continue
        measures = _functions(bin_type, number, kinds)
        function = measures[min(measure, len(measures) - 1)]
        pieces = {
            kind: sizes
            for kind, sizes in _pieces(bin_type, number, kinds).items()
            if not sizes or (row.units and max(sizes) <= row.size)
        }
        if function is None:
            return _WeightedBin(bin_type, row.units * row.size, {kind: sum(sizes) for kind, sizes in pieces.items()})
        weights = {kind: sum(map(function.weight, sizes)) for kind, sizes in pieces.items()}
        return _WeightedBin(bin_type, row.units * function.capacity, weights)
    return _WeightedBin(bin_type, 0, {kind: 0 for kind in kinds if bin_type.needs[kind] is not None})
