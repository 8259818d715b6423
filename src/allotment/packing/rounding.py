"""From parts of bins to whole ones: what is bought whole anyway stays, the rest is bought anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from allotment.packing.bin_types import Floats
from allotment.packing.oracle import Truth, load_of
from allotment.packing.partial_solution import Basket
from allotment.packing.problem import Load


def buy_whole(
    basket: Basket,
    truth: Truth,
    loads: Sequence[tuple[int, Load]],
    times: Floats,
    smaller: Mapping[int, Sequence[int]],
    values: Sequence[float],
) -> None:
    """Buy each load as often as its number says, rounded down; where its items are used up, with smaller ones instead.

    ``smaller``: kinds that can take the place of a kind.
    """
    order = sorted(range(len(loads)), key=lambda at: (-times[at], at))
    for at in order:
        number, load = loads[at]
        many = int(times[at] + 1e-6)
        while many > 0:
            served = _served(basket, load, smaller, values)
            if served != load and not truth.accepts(number, served):
                served = load_of({kind: min(n, max(basket.left[kind], 0)) for kind, n in load})
                if not truth.accepts(number, served):
                    break
            if 2 * sum(values[kind] * n for kind, n in served) < basket.problem.bins[number].price:
                break
            here = min([many, basket.free(number)] + [basket.left[kind] // n for kind, n in served])
            if here <= 0 or not served:
                break
            basket.buy(number, served, here)
            many -= here


def _served(basket: Basket, load: Load, smaller: Mapping[int, Sequence[int]], values: Sequence[float]) -> Load:
    """The load with what is left: smaller kinds where there are not enough of its own."""
    counts: dict[int, int] = {}
    for kind, n in load:
        own = min(n, max(basket.left[kind] - counts.get(kind, 0), 0))
        counts[kind] = counts.get(kind, 0) + own
        for other in sorted(smaller.get(kind, ()), key=lambda other: -values[other]):
            if own == n:
                break
            more = min(n - own, max(basket.left[other] - counts.get(other, 0), 0))
            counts[other] = counts.get(other, 0) + more
            own += more
    return load_of(counts)
