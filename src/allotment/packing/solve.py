"""From the question to the answer: a bound, a construction, and improvement for as long as there is time."""

from __future__ import annotations

from allotment.packing.basket import Basket
from allotment.packing.bound import lower_bound
from allotment.packing.problem import Holds, KeepGoing, Packing, Problem, Progress
from allotment.packing.truth import Truth


def solve(
    problem: Problem,
    holds: Holds,
    *,
    keep_going: KeepGoing,
    seed: int = 0,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Packing:
    """The cheapest packing that is found until ``keep_going`` ends; the same for the same seed and number of steps.

    ``seconds``: about how long ``keep_going`` will go on, if the caller knows; None: answer the same everywhere.
    """
    from allotment.packing.assignment import assigned
    from allotment.packing.construction import construct
    from allotment.packing.sorts import dominated, sort_of

    truth = Truth(problem, holds)
    basket = Basket(problem, problem.counts)
    sorts = [sort_of(problem, number) for number in range(len(problem.bins))]
    gone = dominated(sorts)
    good = [sort for sort in sorts if sort.number not in gone and len(sort.kinds)]
    prices = assigned(problem, problem.counts, good)
    some = min((bin.price for bin in problem.bins if bin.price), default=1)
    construct(basket, truth, good, prices.items + 1e-3 * some, prices.rows, keep_going=keep_going)
    if any(n > 0 for n in basket.left):
        rest = [sort for sort in sorts if sort.number in gone and len(sort.kinds)]
        import numpy as np

        uniform = {sort.number: 1.0 / np.maximum(sort.capacity, 1) for sort in rest}
        construct(basket, truth, rest, prices.items + 1e-3 * some, uniform, keep_going=keep_going)
    left = tuple((kind, n) for kind, n in enumerate(basket.left) if n > 0)
    bound = lower_bound(problem, left)
    if progress is not None:
        progress(basket.cost, bound)
    return Packing(tuple(basket.bought()), basket.cost, bound, left)
