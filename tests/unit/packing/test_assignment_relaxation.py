"""Prices of the assignment relaxation, on problems with a known optimum."""

from __future__ import annotations

import pytest

from allotment.packing.assignment_relaxation import AssignmentPrices, assignment_prices, load_value_bound
from allotment.packing.bin_types import BinTypeArrays, arrays_of
from allotment.packing.problem import BinType, CapacityRow, Problem


def priced(problem: Problem) -> tuple[AssignmentPrices, list[BinTypeArrays]]:
    types = [arrays_of(problem, number) for number in range(len(problem.bin_types))]
    return assignment_prices(problem, problem.counts, types), types


def test_an_item_is_worth_its_share_of_the_scarcest_row() -> None:
    rows = (CapacityRow("cpu", 1, 8), CapacityRow("memory", 1, 100))
    prices, (arrays,) = priced(Problem(("item",), (7,), (BinType("bin", 12, rows, (((2,), (1,)),)),)))
    assert prices.items[0] == pytest.approx(3)  # a quarter of the cpu; memory is not scarce and has price 0
    assert prices.rows[0][0] == pytest.approx(12 / 8)
    assert prices.rows[0][1] == pytest.approx(0)
    assert load_value_bound(arrays, prices.items, prices.rows[0]) == pytest.approx(12)


def test_a_binding_group_limit_has_a_price() -> None:
    row = (CapacityRow("cpu", 1, 4),)
    cheap, dear = (BinType(name, price, row, (((1,),),), groups=(name,)) for name, price in (("cheap", 4), ("dear", 8)))
    prices, _ = priced(Problem(("item",), (10,), (cheap, dear), (("cheap", 1), ("dear", 9))))
    assert prices.items[0] == pytest.approx(2)
    assert prices.group_prices == pytest.approx({"cheap": 4, "dear": 0})


def test_an_unpacked_item_costs_the_penalty() -> None:
    prices, _ = priced(
        Problem(("item",), (10,), (BinType("bin", 4, (CapacityRow("cpu", 1, 4),), (((1,),),), max_count=1),))
    )
    assert prices.items[0] == pytest.approx(4 * 4 + 4)
