"""Answers: against the best ones of small problems, and of problems whose best answer is known."""

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
from tests.unit.packing.small import Exact, best, check, drawn


def counted(steps: int) -> Callable[[], bool]:
    """Time that is counted in steps."""
    taken = 0

    def keep_going() -> bool:
        nonlocal taken
        taken += 1
        return taken <= steps

    return keep_going


def plain(price: int, *rows: CapacityRow, needs: tuple[tuple[int, ...], ...], most: int | None = None) -> BinType:
    """A bin whose items take at most one piece of each row."""
    taken = tuple(tuple((piece,) if piece else () for piece in item) for item in needs)
    return BinType(f"bin at {price}", price, rows, taken, most)


def solved(problem: Problem, steps: int = 300) -> Packing:
    holds = Exact(problem)
    packing = solve(problem, holds, keep_going=counted(steps))
    check(problem, holds, packing)
    return packing


@pytest.mark.parametrize("first", range(0, 500, 50))
def test_no_better_answer_exists_than_bounds_and_answers_say(first: int) -> None:
    """500 problems, a third of them with limits, their best answers found by trying everything."""
    worse = 0
    for seed in range(first, first + 50):
        problem, holds = drawn(Random(seed), limits=seed % 3 == 0)
        left, optimum = best(problem, holds)
        holds.asked.clear()
        packing = solve(problem, holds, keep_going=counted(30))
        check(problem, holds, packing)
        served = counts_without(problem, packing.unpacked)
        if packing.unpacked:
            none_left, optimum = best(replace(problem, counts=served), Exact(problem, holds.foes))
            assert none_left == 0
        assert sum(n for _, n in packing.unpacked) >= left
        assert packing.bound <= optimum <= packing.cost, seed
        assert lower_bound(problem, packing.unpacked) <= optimum, seed
        assert simple_bound(problem, served) <= optimum, seed
        worse += sum(n for _, n in packing.unpacked) > left or packing.cost > optimum
        for rival in (karpenter, cluster_autoscaler):
            theirs = rival(problem, holds)
            check(problem, holds, theirs)
            assert _rank(packing) <= _rank(theirs), (seed, rival)
    assert worse <= 2


def _rank(packing: Packing) -> tuple[int, int]:
    return sum(n for _, n in packing.unpacked), packing.cost


@given(seed=st.integers(1 << 20, 1 << 40), limits=st.booleans())
def test_every_promise_of_an_answer_holds(seed: int, limits: bool) -> None:
    problem, holds = drawn(Random(seed), limits=limits)
    packing = solve(problem, holds, keep_going=counted(15), seed=seed)
    check(problem, holds, packing)
    left, optimum = best(problem, holds)
    assert _rank(packing) >= (left, optimum)
    if not left and not packing.unpacked:
        assert packing.bound <= optimum


@given(seed=st.integers(0, 1 << 40))
def test_the_same_steps_give_the_same_answer(seed: int) -> None:
    problem, holds = drawn(Random(seed), limits=True)
    answers = [solve(problem, holds, keep_going=counted(20), seed=7) for _ in range(2)]
    assert answers[0] == answers[1]


def test_one_item_has_one_bin() -> None:
    problem = Problem(("a",), (1,), (plain(5, CapacityRow("cpu", 1, 10), needs=((7,),)),))
    assert solved(problem) == Packing((PackedBins(0, ((0, 1),), 1),), 5, 5)


def test_nothing_to_pack_costs_nothing() -> None:
    problem = Problem(("a",), (0,), (plain(5, CapacityRow("cpu", 1, 10), needs=((7,),)),))
    assert solved(problem) == Packing((), 0, 0)


def test_three_shares_over_half_need_three_units() -> None:
    """1.8 units by their sum, 3 in truth, and the bound knows it."""
    problem = Problem(("share",), (3,), (plain(10, CapacityRow("gpu", 1, 1000), needs=((600,),)),))
    assert lower_bound(problem) == 30
    assert simple_bound(problem, problem.counts) == 30
    assert solved(problem).cost == 30


def test_seven_sevenths_are_one() -> None:
    problem = Problem(("1g",), (7,), (plain(21, CapacityRow("gpu", 1, 7), needs=((1,),)),))
    assert solved(problem) == Packing((PackedBins(0, ((0, 7),), 1),), 21, 21)


def test_what_is_there_is_used_before_anything_is_bought() -> None:
    row = CapacityRow("cpu", 1, 10)
    problem = Problem(("a",), (5,), (plain(8, row, needs=((4,),)), plain(0, row, needs=((4,),), most=2)))
    packing = solved(problem)
    assert packing.cost == packing.bound == 8
    assert sum(bought.count for bought in packing.bins if bought.bin_type == 1) == 2


def test_a_whole_item_counts_as_all_units() -> None:
    """Eight pieces of a whole unit each leave no room for a share."""
    eight = BinType("8x", 80, (CapacityRow("gpu", 8, 100),), (((100,) * 8,), ((10,),)))
    one = BinType("1x", 12, (CapacityRow("gpu", 1, 100),), (None, ((10,),)))
    packing = solved(Problem(("all", "share"), (1, 10), (eight, one)))
    assert packing.cost == packing.bound == 92


def test_what_the_check_refuses_is_packed_another_way() -> None:
    """Rows would allow both in one bin."""
    row = CapacityRow("cpu", 1, 10)
    problem = Problem(("a", "b"), (2, 2), (plain(10, row, needs=((5,), (5,))),))
    holds = Exact(problem, frozenset({(0, 1)}))
    packing = solve(problem, holds, keep_going=counted(200))
    check(problem, holds, packing)
    assert {bought.load for bought in packing.bins} == {((0, 2),), ((1, 2),)}


def test_what_no_bin_takes_is_left_and_said() -> None:
    problem = Problem(("a", "huge"), (1, 2), (plain(5, CapacityRow("cpu", 1, 10), needs=((7,), (70,))),))
    packing = solved(problem)
    assert packing.unpacked == ((1, 2),)
    assert packing.cost == packing.bound == 5
    never = Problem(("a", "alien"), (1, 1), (BinType("bin", 5, (CapacityRow("cpu", 1, 10),), (((7,),), None)),))
    assert solved(never).notes == ("no sort of bin takes alien",)


def test_a_budget_serves_as_many_as_it_can() -> None:
    row = CapacityRow("cpu", 1, 10)
    problem = Problem(("small", "big"), (4, 2), (plain(10, row, needs=((5,), (10,))),), budget=25)
    packing = solved(problem)
    assert packing.unpacked == ((1, 2),)
    assert packing.cost == 20
    assert "the budget of 25" in packing.notes[0]


def test_a_limit_of_a_group_is_kept() -> None:
    row = CapacityRow("cpu", 1, 10)
    spot = replace(plain(1, row, needs=((10,),)), groups=("spot",))
    problem = Problem(("a",), (5,), (spot, plain(4, row, needs=((10,),))), group_limits=(("spot", 2),))
    packing = solved(problem)
    assert packing.cost == packing.bound == 2 * 1 + 3 * 4


def test_many_equal_items_cost_no_more_time_than_a_few() -> None:
    row = CapacityRow("gpu", 1, 1000)
    problem = Problem(("third", "half"), (30_000, 20_000), (plain(7, row, needs=((333,), (500,))),))
    packing = solved(problem)
    assert packing.cost == packing.bound == 7 * (10_000 + 10_000)


def test_progress_is_told_and_never_gets_worse() -> None:
    problem, holds = drawn(Random(5))
    told: list[tuple[int, int]] = []
    packing = solve(problem, holds, keep_going=counted(50), progress=lambda cost, bound: told.append((cost, bound)))
    assert told
    assert all(after[1] >= before[1] for before, after in pairwise(told))
    assert told[-1][0] >= packing.cost


def test_without_a_solver_there_is_still_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("allotment.packing.")]:
        if name.rpartition(".")[2] in ("search", "linear", "assignment", "master", "sorts"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "highspy", None)
    for seed in range(40):
        problem, holds = drawn(Random(seed), limits=seed % 2 == 0)
        packing = solve(problem, holds, keep_going=counted(100))
        check(problem, holds, packing)
        assert packing.cost == packing.bound or any("highspy" in note for note in packing.notes)
        if not packing.unpacked:
            assert packing.bound <= best(problem, holds)[1]
