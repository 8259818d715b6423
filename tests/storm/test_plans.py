"""A few of the random plans; ``python -m tests.storm.plans`` tries thousands."""

from __future__ import annotations

from random import Random

import pytest

from allotment.fleet.catalog import catalog
from tests.storm.demands import scenario
from tests.storm.plans import attempt


@pytest.mark.parametrize("words", [f"suite/{number}" for number in range(24)])
def test_every_planned_pod_is_bound_once_its_machine_publishes(words: str) -> None:
    told = attempt(scenario(Random(words), catalog()))
    assert told["pods"] > 0
