"""Each load in the cheapest sort that holds it."""

from __future__ import annotations

from allotment.packing.oracle import Truth
from allotment.packing.partial_solution import Basket


def cheapest(basket: Basket, truth: Truth) -> Basket:
    """The same loads, moved to cheaper sorts as far as limits allow: sorts that no search had thought of may do."""
    problem = basket.problem
    order = sorted(range(len(problem.bins)), key=lambda number: (problem.bins[number].price, number))
    after = basket.copy()
    for (number, load), count in sorted(basket.bins.items()):
        rest = count
        for other in order:
            if not rest or problem.bins[other].price >= problem.bins[number].price:
                break
            if not truth.accepts(other, load):
                continue
            after.buy(number, load, -rest)
            here = min(rest, after.free(other))
            if here:
                after.buy(other, load, here)
            rest -= here
            if rest:
                after.buy(number, load, rest)
    return after
