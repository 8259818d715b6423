"""Prices by the assignment program, on problems whose optimum is known."""

from __future__ import annotations

import pytest

from allotment.packing.assignment_relaxation import Prices, assigned, ceiling
from allotment.packing.bin_types import Sort, sort_of
from allotment.packing.problem import BinType, CapacityRow, Problem


def priced(problem: Problem) -> tuple[Prices, list[Sort]]:
    sorts = [sort_of(problem, number) for number in range(len(problem.bin_types))]
    return assigned(problem, problem.counts, sorts), sorts


def test_an_item_is_worth_its_share_of_the_scarcest_row() -> None:
    rows = (CapacityRow("cpu", 1, 8), CapacityRow("memory", 1, 100))
    prices, (sort,) = priced(Problem(("item",), (7,), (BinType("bin", 12, rows, (((2,), (1,)),)),)))
    assert prices.items[0] == pytest.approx(3)  # a quarter of the cpu; memory is plenty and costs nothing
    assert prices.rows[0][0] == pytest.approx(12 / 8)
    assert prices.rows[0][1] == pytest.approx(0)
    assert ceiling(sort, prices.items, prices.rows[0]) == pytest.approx(12)


def test_a_limit_that_is_scarce_costs_a_toll() -> None:
    row = (CapacityRow("cpu", 1, 4),)
    cheap, dear = (BinType(name, price, row, (((1,),),), groups=(name,)) for name, price in (("cheap", 4), ("dear", 8)))
    prices, _ = priced(Problem(("item",), (10,), (cheap, dear), (("cheap", 1), ("dear", 9))))
    assert prices.items[0] == pytest.approx(2)
    assert prices.tolls == pytest.approx({"cheap": 4, "dear": 0})


def test_what_has_no_place_costs_the_penalty() -> None:
    prices, _ = priced(Problem(("item",), (10,), (BinType("bin", 4, (CapacityRow("cpu", 1, 4),), (((1,),),), max_count=1),)))
    assert prices.items[0] == pytest.approx(4 * 4 + 4)
