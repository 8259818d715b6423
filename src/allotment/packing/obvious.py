"""Small questions whose answer a greedy hand finds and a simple bound proves: no solver has to be loaded for these."""

from __future__ import annotations

from typing import Final

from allotment.packing.oracle import FeasibilityOracle
from allotment.packing.partial_solution import PartialSolution
from allotment.packing.problem import Problem
from allotment.packing.pure_python import greedy
from allotment.packing.simple_bound import simple_bound
from allotment.packing.solve import cheapest

#: Items times sorts of bins up to which that is quicker than to load the solver.
_SMALL: Final = 4_000


def obvious(problem: Problem, truth: FeasibilityOracle) -> PartialSolution | None:
    """The cheapest packing of everything, if it is found and proven at once."""
    if sum(problem.counts) * len(problem.bin_types) > _SMALL:
        return None
    basket = cheapest(greedy(problem, truth), truth)
    return basket if basket.rank() <= (0, simple_bound(problem, problem.counts)) else None
