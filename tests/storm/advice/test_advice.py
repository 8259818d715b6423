"""The advice for a fixed set of random worlds, at least one for each mistake; `python -m tests.storm.advice` tries
2,000."""

from __future__ import annotations

import pytest

from tests.storm.advice.__main__ import evaluated, evaluated_twice
from tests.storm.advice.explanations import fits
from tests.storm.advice.planting import MISTAKES, planted_world
from tests.storm.advice.report import missed, summary
from tests.storm.advice.verdicts import Verdict

#: Worlds with each mistake, and more with two of them.
WORLDS = len(MISTAKES) + 7


#: Nodes of each cluster at most.
NODES = 3


@pytest.fixture(scope="module")
def verdicts() -> list[Verdict]:
    return [evaluated(f"suite/{number}", NODES) for number in range(WORLDS)]


def test_every_goal_is_reached(verdicts: list[Verdict]) -> None:
    failures = [f"{v.name} {v.mistakes} {name}: {text}" for v in verdicts for name, text in v.failures]
    assert missed(verdicts) == [], "\n".join([*summary(verdicts), *failures])


def test_every_mistake_is_planted(verdicts: list[Verdict]) -> None:
    assert {name for verdict in verdicts for name in verdict.mistakes} == {mistake.name for mistake in MISTAKES}


def test_the_same_world_has_the_same_answers() -> None:
    for number in (0, 17, 40):
        assert not evaluated_twice(f"suite/{number}", NODES).failed("repetition")


def test_a_mistake_is_why_the_pod_is_pending() -> None:
    planted = planted_world("suite/3", NODES)
    assert fits(planted.fitting)
    assert not fits(planted.world)
