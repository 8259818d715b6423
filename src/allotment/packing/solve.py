"""From the question to the answer: a bound, a construction, and improvement for as long as there is time."""

from __future__ import annotations

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
    from allotment.packing.search import Search, cheapest

    truth = Truth(problem, holds)
    search = Search(problem, truth, keep_going, seed, progress)
    search.run()
    basket = cheapest(search.basket, truth)
    search.consider(basket)
    left = tuple((kind, n) for kind, n in enumerate(search.basket.left) if n > 0)
    return Packing(tuple(search.basket.bought()), search.basket.cost, search.bound(), left)
