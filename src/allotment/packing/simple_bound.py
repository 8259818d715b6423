"""A bound without any solver: each row on its own, at the lowest price per weight. Weak, quick, and always there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from allotment.packing.dual_bound import payable
from allotment.packing.dual_feasible import Weighing, tuned, weighings
from allotment.packing.problem import BinType, Pieces, Problem

#: Against rounding in sums of doubles, as a fraction of all that is summed up.
_MARGIN = 1e-9
#: Weighings of pieces that are tried for one row.
_TUNED = 12


@dataclass(frozen=True, slots=True)
class _Rated:
    """A bin under one measure: what it bears, and what its kinds weigh."""

    bin: BinType
    bears: int
    weights: dict[int, int]


def simple_bound(problem: Problem, counts: Sequence[int]) -> int:
    """No packing of so many items by kind costs less."""
    best = 0.0
    kinds = [kind for kind, n in enumerate(counts) if n > 0]
    for name in dict.fromkeys(row.name for bin in problem.bin_types for row in bin.rows):
        for measure in range(_measures(problem, kinds, name)):
            rated = [_rated(bin, kinds, name, measure) for bin in problem.bin_types]
            rates = [one.bin.price / one.bears if one.bears else 0.0 for one in rated]
            best = max(best, _worth(counts, kinds, rated, rates))
            # Bins of which there are few are worth what others cost, and are paid for it.
            usual = [rate for rate, one in zip(rates, rated, strict=True) if one.bin.max_count is None and one.bears]
            if usual and len(usual) < len(rated):
                least = min(usual)
                raised = [
                    rate if one.bin.max_count is None else max(rate, least) for rate, one in zip(rates, rated, strict=True)
                ]
                best = max(best, _worth(counts, kinds, rated, raised))
    return payable(problem, max(ceil(best), _dearest(problem, kinds)))


def _dearest(problem: Problem, kinds: Sequence[int]) -> int:
    """Every item is somewhere: the cheapest place of the one whose cheapest place is the dearest."""
    cheapest = (min((bin.price for bin in problem.bin_types if bin.needs[kind] is not None), default=0) for kind in kinds)
    return max(cheapest, default=0)


def _worth(counts: Sequence[int], kinds: Sequence[int], rated: Sequence[_Rated], rates: Sequence[float]) -> float:
    """All items at the lowest rate of any bin they may be in, less what scarce bins are worth beyond their price."""
    least: dict[int, float] = {}
    for one, rate in zip(rated, rates, strict=True):
        for kind, weight in one.weights.items():
            value = weight * rate
            if value < least.get(kind, value + 1):
                least[kind] = value
    worth = sum(counts[kind] * least.get(kind, 0.0) for kind in kinds)
    paid = 0.0
    for one, rate in zip(rated, rates, strict=True):
        if one.bin.max_count is not None:
            paid += one.bin.max_count * max(0.0, rate * one.bears - one.bin.price)
    return worth - paid - _MARGIN * (worth + paid)


def _pieces(bin: BinType, row: int, kinds: Sequence[int]) -> dict[int, Pieces]:
    return {kind: needs[row] for kind in kinds if (needs := bin.needs[kind]) is not None}


def _weighings(bin: BinType, row: int, kinds: Sequence[int]) -> list[Weighing | None]:
    """None: by size. Then dual feasible weights, general ones and such as these pieces suggest."""
    size = bin.rows[row].size
    every = {piece for pieces in _pieces(bin, row, kinds).values() for piece in pieces if piece <= size}
    return [None, *weighings(size), *list(tuned(size, every))[:_TUNED]]


def _measures(problem: Problem, kinds: Sequence[int], name: str) -> int:
    """How many measures there are for a row; a bin with fewer repeats its last."""
    return max(
        len(_weighings(bin, number, kinds))
        for bin in problem.bin_types
        for number, row in enumerate(bin.rows)
        if row.name == name
    )


def _rated(bin: BinType, kinds: Sequence[int], name: str, measure: int) -> _Rated:
    """Under the measure of that number. A bin without the row bears nothing, and nothing weighs anything in it."""
    for number, row in enumerate(bin.rows):
        if row.name != name:
            continue
        known = _weighings(bin, number, kinds)
        weighing = known[min(measure, len(known) - 1)]
        pieces = {
            kind: each
            for kind, each in _pieces(bin, number, kinds).items()
            if not each or (row.units and max(each) <= row.size)
        }
        if weighing is None:
            return _Rated(bin, row.units * row.size, {kind: sum(each) for kind, each in pieces.items()})
        weights = {kind: sum(map(weighing.weight, each)) for kind, each in pieces.items()}
        return _Rated(bin, row.units * weighing.capacity, weights)
    return _Rated(bin, 0, {kind: 0 for kind in kinds if bin.needs[kind] is not None})
