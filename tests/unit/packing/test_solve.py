"""Solutions compared with the optimum of small random problems and of problems with a known optimum."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.packing.baselines import cluster_autoscaler, karpenter
from allotment.packing.problem import BinType, CapacityRow, PackedBins, Packing, Problem, counts_without
from allotment.packing.simple_bound import simple_bound
from allotment.packing.solve import lower_bound, solve
from tests.unit.packing.random_problems import ExactCheck, best_by_enumeration, check_packing, random_problem


def counted(steps: int) -> Callable[[], bool]:
    """A ``keep_going`` that allows this number of steps."""
    taken = 0

    def keep_going() -> bool:
        nonlocal taken
        taken += 1
        return taken <= steps

    return keep_going


def plain(price: int, *rows: CapacityRow, needs: tuple[tuple[int, ...], ...], most: int | None = None) -> BinType:
    """A bin type whose items take at most one piece of each row."""
    taken = tuple(tuple((piece,) if piece else () for piece in item) for item in needs)
    return BinType(f"bin at {price}", price, rows, taken, most)


def solved(problem: Problem, steps: int = 300) -> Packing:
    holds = ExactCheck(problem)
    packing = solve(problem, holds, keep_going=counted(steps))
    check_packing(problem, holds, packing)
    return packing


@pytest.mark.parametrize("first", range(0, 250, 50))
def test_bounds_never_exceed_and_costs_never_undercut_the_optimum(first: int) -> None:
    """250 problems, a third of them with limits, solved by enumeration; `tests.storm.optimum` tries thousands."""
    worse = 0
    for seed in range(first, first + 50):
        problem, holds = random_problem(Random(seed), limits=seed % 3 == 0)
        left, optimum = best_by_enumeration(problem, holds)
        holds.accepted.clear()
        packing = solve(problem, holds, keep_going=counted(30))
        check_packing(problem, holds, packing)
        served = counts_without(problem, packing.unpacked)
        if packing.unpacked:
            none_left, optimum = best_by_enumeration(
                replace(problem, counts=served), ExactCheck(problem, holds.incompatible)
            )
            assert none_left == 0
        assert sum(n for _, n in packing.unpacked) >= left
        assert packing.bound <= optimum <= packing.cost, seed
        assert lower_bound(problem, packing.unpacked) <= optimum, seed
        assert simple_bound(problem, served) <= optimum, seed
        worse += sum(n for _, n in packing.unpacked) > left or packing.cost > optimum
        for baseline in (karpenter, cluster_autoscaler):
            baseline_packing = baseline(problem, holds)
            check_packing(problem, holds, baseline_packing)
            assert _rank(packing) <= _rank(baseline_packing), (seed, baseline)
    assert worse <= 2


def _rank(packing: Packing) -> tuple[int, int]:
    return sum(n for _, n in packing.unpacked), packing.cost


@given(seed=st.integers(1 << 20, 1 << 40), limits=st.booleans())
def test_a_packing_is_valid_and_never_below_the_optimum(seed: int, limits: bool) -> None:
    problem, holds = random_problem(Random(seed), limits=limits)
    packing = solve(problem, holds, keep_going=counted(15), seed=seed)
    check_packing(problem, holds, packing)
    left, optimum = best_by_enumeration(problem, holds)
    assert _rank(packing) >= (left, optimum)
    if not left and not packing.unpacked:
        assert packing.bound <= optimum


@given(seed=st.integers(0, 1 << 40))
def test_equal_steps_give_an_equal_packing(seed: int) -> None:
    problem, holds = random_problem(Random(seed), limits=True)
    answers = [solve(problem, holds, keep_going=counted(20), seed=7) for _ in range(2)]
    assert answers[0] == answers[1]


def test_one_item_gets_one_bin() -> None:
    problem = Problem(("a",), (1,), (plain(5, CapacityRow("cpu", 1, 10), needs=((7,),)),))
    assert solved(problem) == Packing((PackedBins(0, ((0, 1),), 1),), 5, 5)


def test_nothing_to_pack_costs_nothing() -> None:
    problem = Problem(("a",), (0,), (plain(5, CapacityRow("cpu", 1, 10), needs=((7,),)),))
    assert solved(problem) == Packing((), 0, 0)


def test_three_shares_over_half_need_three_units() -> None:
    """Their sum is 1.8 units but they need 3, and the bound is 3 units."""
    problem = Problem(("share",), (3,), (plain(10, CapacityRow("gpu", 1, 1000), needs=((600,),)),))
    assert lower_bound(problem) == 30
    assert simple_bound(problem, problem.counts) == 30
    assert solved(problem).cost == 30


def test_seven_sevenths_fit_one_unit() -> None:
    problem = Problem(("1g",), (7,), (plain(21, CapacityRow("gpu", 1, 7), needs=((1,),)),))
    assert solved(problem) == Packing((PackedBins(0, ((0, 7),), 1),), 21, 21)


def test_existing_bins_are_used_before_new_ones() -> None:
    row = CapacityRow("cpu", 1, 10)
    problem = Problem(("a",), (5,), (plain(8, row, needs=((4,),)), plain(0, row, needs=((4,),), most=2)))
    packing = solved(problem)
    assert packing.cost == packing.bound == 8
    assert sum(packed.count for packed in packing.bins if packed.bin_type == 1) == 2


def test_an_item_that_takes_all_units_leaves_none_for_shares() -> None:
    """Eight pieces of a whole unit each leave no capacity for a share."""
    eight = BinType("8x", 80, (CapacityRow("gpu", 8, 100),), (((100,) * 8,), ((10,),)))
    single = BinType("1x", 12, (CapacityRow("gpu", 1, 100),), (None, ((10,),)))
    packing = solved(Problem(("all", "share"), (1, 10), (eight, single)))
    assert packing.cost == packing.bound == 92


def test_items_rejected_together_are_packed_apart() -> None:
    """By rows both would fit one bin."""
    row = CapacityRow("cpu", 1, 10)
    problem = Problem(("a", "b"), (2, 2), (plain(10, row, needs=((5,), (5,))),))
    holds = ExactCheck(problem, frozenset({(0, 1)}))
    packing = solve(problem, holds, keep_going=counted(200))
    check_packing(problem, holds, packing)
    assert {packed.load for packed in packing.bins} == {((0, 2),), ((1, 2),)}


def test_items_that_fit_no_bin_type_are_unpacked_with_a_note() -> None:
    problem = Problem(("a", "huge"), (1, 2), (plain(5, CapacityRow("cpu", 1, 10), needs=((7,), (70,))),))
    packing = solved(problem)
    assert packing.unpacked == ((1, 2),)
    assert packing.cost == packing.bound == 5
    never = Problem(("a", "alien"), (1, 1), (BinType("bin", 5, (CapacityRow("cpu", 1, 10),), (((7,),), None)),))
    assert solved(never).notes == ("no bin type fits alien",)


def test_a_budget_packs_as_many_items_as_possible() -> None:
    row = CapacityRow("cpu", 1, 10)
    problem = Problem(("small", "big"), (4, 2), (plain(10, row, needs=((5,), (10,))),), budget=25)
    packing = solved(problem)
    assert packing.unpacked == ((1, 2),)
    assert packing.cost == 20
    assert "the budget of 25" in packing.notes[0]


def test_a_group_limit_is_respected() -> None:
    row = CapacityRow("cpu", 1, 10)
    spot = replace(plain(1, row, needs=((10,),)), groups=("spot",))
    problem = Problem(("a",), (5,), (spot, plain(4, row, needs=((10,),))), group_limits=(("spot", 2),))
    packing = solved(problem)
    assert packing.cost == packing.bound == 2 * 1 + 3 * 4


def test_many_equal_items_are_solved_to_optimality() -> None:
    row = CapacityRow("gpu", 1, 1000)
    problem = Problem(("third", "half"), (30_000, 20_000), (plain(7, row, needs=((333,), (500,))),))
    packing = solved(problem)
    assert packing.cost == packing.bound == 7 * (10_000 + 10_000)


def test_progress_is_reported_and_never_gets_worse() -> None:
    problem, holds = random_problem(Random(5))
    reported: list[tuple[int, int]] = []
    packing = solve(problem, holds, keep_going=counted(50), progress=lambda cost, bound: reported.append((cost, bound)))
    assert reported
    assert all(after[1] >= before[1] for before, after in pairwise(reported))
    assert reported[-1][0] >= packing.cost


def test_without_a_solver_the_packing_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("allotment.packing.")]:
        if name.rpartition(".")[2] in ("search", "linear", "assignment_relaxation", "master_problem", "bin_types"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "highspy", None)
    for seed in range(40):
        problem, holds = random_problem(Random(seed), limits=seed % 2 == 0)
        packing = solve(problem, holds, keep_going=counted(100))
        check_packing(problem, holds, packing)
        assert packing.cost == packing.bound or any("highspy" in note for note in packing.notes)
        if not packing.unpacked:
            assert packing.bound <= best_by_enumeration(problem, holds)[1]
