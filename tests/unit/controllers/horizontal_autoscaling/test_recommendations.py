"""Recommendations are stabilized, and limited by policies."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.controllers.horizontal_autoscaling.recommendations import History, Limits

#: The defaults that the API server sets in ``spec.behavior``.
UP: dict[str, Any] = {
    "stabilizationWindowSeconds": 0, "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15},
                 {"type": "Percent", "value": 100, "periodSeconds": 15}],
}  # fmt: skip
DOWN: dict[str, Any] = {
    "selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]
}  # fmt: skip
BEHAVIOR = {"scaleUp": UP, "scaleDown": DOWN}


def limits(current: int, least: int = 1, most: int = 100) -> Limits:
    return Limits(current, least, most)


@pytest.mark.parametrize(
    ("current", "desired", "replicas", "reason"),
    [
        (1, 3, 3, "DesiredWithinRange"),
        (1, 9, 4, "ScaleUpLimit"),
        (10, 30, 20, "ScaleUpLimit"),
        (10, 200, 12, "TooManyReplicas"),
        (10, 0, 2, "TooFewReplicas"),
    ],
)
def test_scaling_without_behavior_at_most_doubles(current: int, desired: int, replicas: int, reason: str) -> None:
    history = History(0, -1000)
    found = history.decide(desired, limits(current, 2, 12 if reason == "TooManyReplicas" else 100), None, 0)
    assert (found.replicas, found.limit[0]) == (replicas, reason)
    assert found.limited == (reason != "DesiredWithinRange")


def test_scaling_down_follows_the_highest_recommendation_of_five_minutes() -> None:
    history = History(5, 0)
    assert history.decide(5, limits(5), None, 10).able[0] == "ReadyForNewScale"
    found = history.decide(2, limits(5), None, 100)
    assert (found.replicas, found.able[0]) == (5, "ScaleDownStabilized")
    assert history.decide(3, limits(5), None, 300).replicas == 5
    assert history.decide(2, limits(5), None, 320).replicas == 3
    assert history.decide(2, limits(3), None, 700).replicas == 2


def test_policies_limit_the_change_in_a_period() -> None:
    history = History(1, 0)
    first = history.decide(50, limits(1), BEHAVIOR, 0)
    assert (first.replicas, first.limit[0]) == (5, "ScaleUpLimit")
    history.scaled(1, 5, BEHAVIOR, 0)
    assert history.decide(50, limits(5), BEHAVIOR, 10).replicas == 5, "four pods were added in this period"
    assert history.decide(50, limits(5), BEHAVIOR, 16).replicas == 10


@pytest.mark.parametrize(("select", "replicas"), [("Max", 5), ("Min", 9), ("Disabled", 10)])
def test_the_selected_policy_decides(select: str, replicas: int) -> None:
    down = {
        "selectPolicy": select, "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60},
                     {"type": "Percent", "value": 50, "periodSeconds": 60}],
    }  # fmt: skip
    found = History(10, 0).decide(1, limits(10), {"scaleUp": UP, "scaleDown": down}, 1)
    assert found.replicas == replicas
    assert found.limit[0] == "ScaleDownLimit"


def test_windows_stabilize_both_directions() -> None:
    history = History(4, 0)
    up = {**UP, "stabilizationWindowSeconds": 60}
    behavior = {"scaleUp": up, "scaleDown": {**DOWN, "stabilizationWindowSeconds": 120}}
    found = history.decide(8, limits(4), behavior, 30)
    assert (found.replicas, found.able[0]) == (4, "ScaleUpStabilized")
    assert history.decide(8, limits(4), behavior, 95).replicas == 8
    assert history.decide(2, limits(8), behavior, 100).able[0] == "ScaleDownStabilized"
    assert history.decide(2, limits(8), behavior, 216).replicas == 2
