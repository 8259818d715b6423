"""Some of the random plans; ``python -m tests.storm.plans`` and ``python -m tests.storm.optimum`` try thousands."""

from __future__ import annotations

from random import Random

import pytest

from allotment.fleet.catalog import catalog
from tests.storm.demands import scenario_of
from tests.storm.optimum import compare_with_optimum, small_demand
from tests.storm.plans import attempt


@pytest.mark.parametrize("words", [f"{seed}/{number}" for seed in ("suite", "wide-suite") for number in range(14)])
def test_every_planned_pod_is_bound_once_its_machine_publishes(words: str) -> None:
    counts = attempt(scenario_of(words, catalog()))
    assert counts["pods"] > 0


@pytest.mark.parametrize("number", range(25))
def test_a_bound_is_never_above_the_optimum(number: int) -> None:
    found = compare_with_optimum(small_demand(Random(f"suite/{number}"), catalog()))
    assert found.bound <= found.optimum <= found.total
