"""Problems with hundreds of existing nodes, each with a different free capacity."""

from __future__ import annotations

from random import Random

from allotment.packing.existing_bins import prefilled_bins
from allotment.packing.problem import BinType, CapacityRow, Problem
from allotment.packing.solve import lower_bound, solve
from tests.unit.packing.random_problems import ExactCheck, check_packing


def _problem(seed: int, nodes: int, items: int) -> Problem:
    random = Random(seed)
    needs = (((3,), (2,)), ((5,), (1,)), ((1,), (6,)))
    existing = [
        BinType(
            f"node {n}",
            0,
            (CapacityRow("cpu", 1, random.randint(3, 9)), CapacityRow("memory", 1, random.randint(2, 9))),
            needs,
            1,
        )
        for n in range(nodes)
    ]
    new = BinType("new", 10, (CapacityRow("cpu", 1, 16), CapacityRow("memory", 1, 16)), needs)
    return Problem(("a", "b", "c"), (items, items, items), (*existing, new))


def test_existing_bins_are_filled_before_new_ones() -> None:
    problem = _problem(1, 320, 250)
    assert len(prefilled_bins(problem)) == 320
    holds = ExactCheck(problem)
    left = iter(range(900))
    packing = solve(problem, holds, keep_going=lambda: next(left, None) is not None)
    check_packing(problem, holds, packing)
    assert not packing.unpacked
    assert 0 < packing.bound <= packing.cost
    # On new machines only, the items would cost far more.
    assert packing.cost < 0.7 * lower_bound(Problem(problem.kinds, problem.counts, problem.bin_types[-1:]))


def test_existing_bins_with_capacity_for_all_items_cost_nothing() -> None:
    problem = _problem(2, 400, 20)
    holds = ExactCheck(problem)
    packing = solve(problem, holds, keep_going=lambda: True)
    check_packing(problem, holds, packing)
    assert packing.cost == packing.bound == 0
    assert not packing.unpacked
    assert lower_bound(problem) == 0
