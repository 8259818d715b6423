"""A few of the random plans; ``python -m tests.storm.plans`` tries thousands."""

from __future__ import annotations

import pytest

from allotment.fleet.catalog import catalog
from tests.storm.demands import scenario_of
from tests.storm.plans import attempt


@pytest.mark.parametrize("words", [f"{seed}/{number}" for seed in ("suite", "wide-suite") for number in range(14)])
def test_every_planned_pod_is_bound_once_its_machine_publishes(words: str) -> None:
    told = attempt(scenario_of(words, catalog()))
    assert told["pods"] > 0
