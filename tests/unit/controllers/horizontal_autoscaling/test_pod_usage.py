"""Metrics of pods recommend replicas."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from allotment.cluster.clock import Clock
from allotment.controllers.horizontal_autoscaling.metric_sources import _seconds
from allotment.controllers.horizontal_autoscaling.pod_usage import (
    NoRecommendation,
    Sample,
    Tolerances,
    by_average,
    by_utilization,
    by_value,
    by_value_per_pod,
    request_of,
)
from allotment.model.trees import Tree


class FixedClock(Clock):
    def moment(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


START = "2000-01-01T00:00:00Z"
READY = {"type": "Ready", "status": "True", "lastTransitionTime": START}
TOLERANCES = Tolerances()


def pod(name: str, phase: str = "Running", ready: Tree = READY, cpu: str = "100m") -> Tree:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu} if cpu else {}}}
    status = {"phase": phase, "startTime": START, "conditions": [ready]}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}, "status": status}


def utilization(pods: list[Tree], used: dict[str, int], current: int = 0, target: int = 50) -> tuple[int, int]:
    samples = {name: Sample(amount, START, 15.0) for name, amount in used.items()}
    found = by_utilization(samples, pods, current or len(pods), target, "cpu", "", TOLERANCES, FixedClock())
    return found.replicas, found.utilization


@pytest.mark.parametrize(
    ("used", "replicas", "percentage"),
    [
        ([50, 50], 2, 50),
        ([54, 54], 2, 54),
        ([100, 100], 4, 100),
        ([200, 10], 5, 105),
        ([10, 10], 1, 10),
        ([0, 0], 0, 0),
    ],
)
def test_the_ratio_to_the_target_decides(used: list[int], replicas: int, percentage: int) -> None:
    pods = [pod("a"), pod("b")]
    assert utilization(pods, dict(zip("ab", used, strict=True))) == (replicas, percentage)


def test_a_pod_without_a_metric_counts_as_idle_or_as_fully_used() -> None:
    pods = [pod("a"), pod("b"), pod("new")]
    assert utilization(pods, {"a": 100, "b": 100})[0] == 4, "200m of 300m is 66 %"
    assert utilization(pods, {"a": 60, "b": 60})[0] == 3, "the assumption may not change the direction"
    assert utilization(pods, {"a": 10, "b": 10})[0] == 3
    assert utilization(pods, {"a": 0, "b": 0}, target=90)[0] == 2


def test_pending_and_unready_pods_do_not_count() -> None:
    never = {**READY, "status": "False"}
    pods = [pod("a"), pod("pending", "Pending"), pod("never", ready=never), pod("failed", "Failed")]
    assert utilization(pods, {"a": 100, "never": 0, "failed": 0}, current=4)[0] == 4
    with pytest.raises(NoRecommendation, match=r"^did not receive metrics for targeted pods \(pods might be unready\)"):
        utilization([pod("pending", "Pending")], {"pending": 1})
    with pytest.raises(NoRecommendation, match=r"^no pods returned by selector while calculating replica count"):
        utilization([], {"a": 1})


def test_the_usage_of_a_starting_pod_does_not_count() -> None:
    clock = FixedClock()
    now = clock.now()
    starting = pod("b")
    starting["status"] |= {"startTime": now, "conditions": [{**READY, "lastTransitionTime": now}]}
    samples = {"a": Sample(50, START, 15.0), "b": Sample(1000, now, 15.0)}
    found = by_utilization(samples, [pod("a"), starting], 2, 50, "cpu", "", TOLERANCES, clock)
    assert (found.replicas, found.utilization) == (2, 50), "1000m of the pod that starts would be 525 %"


def test_requests_are_required() -> None:
    with pytest.raises(NoRecommendation, match=r"^missing request for cpu in container main of Pod a$"):
        request_of(pod("a", cpu=""), "cpu")
    with pytest.raises(NoRecommendation, match=r"^container other not found in Pod a$"):
        request_of(pod("a"), "cpu", "other")
    whole = pod("a")
    whole["spec"]["resources"] = {"requests": {"cpu": "2"}}
    assert request_of(whole, "cpu") == 2000
    assert request_of(whole, "cpu", "main") == 100


def test_averages_and_values() -> None:
    pods = [pod("a"), pod("b")]
    samples = {"a": Sample(3000, START, 60.0), "b": Sample(1000, START, 60.0)}
    found = by_average(samples, pods, 2, 1000, "", TOLERANCES, FixedClock())
    assert (found.replicas, found.average) == (4, 2000)
    assert by_value(9000, pods, 2, 3000, TOLERANCES).replicas == 6
    assert by_value(9000, [], 0, 3000, TOLERANCES).replicas == 3
    assert by_value_per_pod(9000, 2, 3000, TOLERANCES) == (3, 4500, 0)


def test_windows_are_durations_of_go() -> None:
    assert (_seconds("15s"), _seconds("1m0.5s"), _seconds("2h")) == (15, 60.5, 7200)
