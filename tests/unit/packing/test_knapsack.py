"""The most valuable load of one bin: found, and never above its bound, however short the search is cut."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.packing.bin_types import sort_of
from allotment.packing.cutting_planes import Sharpened, Weighings
from allotment.packing.knapsack import fill
from allotment.packing.oracle import FeasibilityOracle
from allotment.packing.pricing import Effort, price
from allotment.packing.problem import Problem
from tests.unit.packing.small import Exact, drawn


def _best(problem: Problem, holds: Exact, values: list[float], bin: int) -> float:
    loads = (
        tuple((kind, n) for kind, n in enumerate(counts) if n)
        for counts in product(*(range(n + 1) for n in problem.counts))
    )
    return max(sum(values[kind] * n for kind, n in load) for load in loads if not load or holds(bin, load))


@given(seed=st.integers(0, 1 << 40), width=st.sampled_from((1, 3, 500)), asked=st.floats(0, 40))
def test_no_load_is_worth_more_than_the_bound(seed: int, width: int, asked: float) -> None:
    random = Random(seed)
    problem, holds = drawn(random)
    values = [random.choice((0.0, random.random() * 30)) for _ in problem.kinds]
    items = np.array(values)
    for number in range(len(problem.bin_types)):
        sort = sort_of(problem, number)
        if not len(sort.kinds):
            continue
        rows = np.array([random.random() for _ in sort.capacity]) * random.choice((0, 1, 5)) / (sort.capacity + 1)
        best = _best(problem, holds, values, number)
        found = fill(sort, items[sort.kinds], sort.alone, rows, asked, width=width)
        assert max(found.bound, asked) >= best
        for counts, value in zip(found.loads, found.values, strict=True):
            assert (sort.weights.T @ counts <= sort.capacity).all()
            assert value == pytest.approx(float(items[sort.kinds] @ counts))
            assert asked < value <= found.bound


@given(seed=st.integers(0, 1 << 40), asked=st.floats(0.5, 40))
def test_a_careful_search_finds_the_best_and_proves_it(seed: int, asked: float) -> None:
    random = Random(seed)
    problem, holds = drawn(random)
    values = [random.random() * 30 for _ in problem.kinds]
    truth = FeasibilityOracle(problem, holds)
    rows_only = Exact(problem)
    for number in range(len(problem.bin_types)):
        sort = sort_of(problem, number)
        if not len(sort.kinds):
            continue
        sharp = Sharpened(problem, sort, Weighings())
        found = price(sharp, np.array(values), asked, truth.fits_rows, Effort(50, 500, 6, 500), most=3)
        best = _best(problem, rows_only, values, number)
        assert max(found.bound, asked) >= best
        if best > asked * 1.001:
            assert found.loads
            assert sum(values[kind] * n for kind, n in found.loads[0]) == pytest.approx(best, rel=1e-3)


def test_prices_that_come_from_nowhere_still_make_a_valid_bound() -> None:
    """The width of one partial load: nearly everything is dropped, and the bound remembers it."""
    problem, holds = drawn(Random(11))
    items = np.ones(len(problem.kinds))
    for number in range(len(problem.bin_types)):
        sort = sort_of(problem, number)
        found = fill(sort, items[sort.kinds], sort.alone, np.zeros(len(sort.capacity)), 0.0, width=1)
        assert found.bound >= _best(problem, holds, list(items), number)
