"""The knapsack search finds the most valuable load of a bin, and its bound holds for every width."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.packing.bin_types import arrays_of
from allotment.packing.cutting_planes import CutPool, TightenedBinType
from allotment.packing.knapsack import valuable_loads
from allotment.packing.oracle import FeasibilityOracle
from allotment.packing.pricing import Effort, price_loads
from allotment.packing.problem import Problem
from tests.unit.packing.random_problems import ExactCheck, random_problem


def _best(problem: Problem, holds: ExactCheck, values: list[float], bin: int) -> float:
    loads = (
        tuple((kind, n) for kind, n in enumerate(counts) if n)
        for counts in product(*(range(n + 1) for n in problem.counts))
    )
    return max(sum(values[kind] * n for kind, n in load) for load in loads if not load or holds(bin, load))


@given(seed=st.integers(0, 1 << 40), width=st.sampled_from((1, 3, 500)), threshold=st.floats(0, 40))
def test_no_load_is_worth_more_than_the_bound(seed: int, width: int, threshold: float) -> None:
    random = Random(seed)
    problem, holds = random_problem(random)
    values = [random.choice((0.0, random.random() * 30)) for _ in problem.kinds]
    items = np.array(values)
    for number in range(len(problem.bin_types)):
        arrays = arrays_of(problem, number)
        if not len(arrays.kinds):
            continue
        rows = np.array([random.random() for _ in arrays.capacity]) * random.choice((0, 1, 5)) / (arrays.capacity + 1)
        best = _best(problem, holds, values, number)
        found = valuable_loads(arrays, items[arrays.kinds], arrays.max_items, rows, threshold, width=width)
        assert max(found.bound, threshold) >= best
        for counts, value in zip(found.loads, found.values, strict=True):
            assert (arrays.weights.T @ counts <= arrays.capacity).all()
            assert value == pytest.approx(float(items[arrays.kinds] @ counts))
            assert threshold < value <= found.bound


@given(seed=st.integers(0, 1 << 40), threshold=st.floats(0.5, 40))
def test_a_thorough_search_finds_and_proves_the_best_load(seed: int, threshold: float) -> None:
    random = Random(seed)
    problem, holds = random_problem(random)
    values = [random.random() * 30 for _ in problem.kinds]
    oracle = FeasibilityOracle(problem, holds)
    rows_only = ExactCheck(problem)
    for number in range(len(problem.bin_types)):
        arrays = arrays_of(problem, number)
        if not len(arrays.kinds):
            continue
        tightened = TightenedBinType(problem, arrays, CutPool())
        found = price_loads(
            tightened, np.array(values), threshold, oracle.fits_rows, Effort(50, 500, 6, 500), max_loads=3
        )
        best = _best(problem, rows_only, values, number)
        assert max(found.bound, threshold) >= best
        if best > threshold * 1.001:
            assert found.loads
            assert sum(values[kind] * n for kind, n in found.loads[0]) == pytest.approx(best, rel=1e-3)


def test_arbitrary_prices_give_a_valid_bound() -> None:
    """With a width of one partial load nearly all are dropped; the bound includes their potential."""
    problem, holds = random_problem(Random(11))
    items = np.ones(len(problem.kinds))
    for number in range(len(problem.bin_types)):
        arrays = arrays_of(problem, number)
        found = valuable_loads(
            arrays, items[arrays.kinds], arrays.max_items, np.zeros(len(arrays.capacity)), 0.0, width=1
        )
        assert found.bound >= _best(problem, holds, list(items), number)
