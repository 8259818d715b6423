"""The order of the queue, its groups, and back-off."""

from __future__ import annotations

from typing import Any

from allotment.node_fit.pod_requirements import PodRequirementsCache
from allotment.scheduler.cluster_events import ClusterEvent, events_for
from allotment.scheduler.pods import QueuedPod
from allotment.scheduler.queue import SchedulingQueue
from tests.unit.scheduler.machines import tree_of

_DEMANDS = PodRequirementsCache()
FREED = frozenset({ClusterEvent.CLAIM_FREED})


def _pod(name: str, **more: Any) -> QueuedPod:
    tree = tree_of(name, **more)
    return QueuedPod(tree, _DEMANDS.of(tree["spec"]))


def _order(queue: SchedulingQueue) -> list[str]:
    names = []
    while (pod := queue.pop()) is not None:
        names.append(pod.uid)
    return names


def test_order_is_priority_then_age() -> None:
    queue = SchedulingQueue()
    queue.add(_pod("new", created="2026-01-02T00:00:00Z"), "x")
    queue.add(_pod("old", created="2026-01-01T00:00:00Z"), "y")
    queue.add(_pod("urgent", priority=5, created="2026-01-03T00:00:00Z"), "z")
    assert _order(queue) == ["urgent", "old", "new"]


def test_group_shares_the_verdict_of_its_first_pod() -> None:
    queue = SchedulingQueue()
    pods = [_pod(f"p{n}") for n in range(3)]
    for pod in pods:
        queue.add(pod, "same")
    first = queue.pop()
    assert first is pods[0]
    group = queue.park(first, "same", "no room", FREED)
    assert list(group.pods) == ["p0", "p1", "p2"]
    assert queue.pop() is None
    assert queue.add(_pod("late"), "same") is group
    assert queue.wake({ClusterEvent.NODE}) == 0
    assert queue.wake({ClusterEvent.CLAIM_FREED}) == 1
    assert _order(queue) == ["p0", "p1", "p2", "late"]


def test_back_off_doubles_up_to_ten_seconds() -> None:
    queue = SchedulingQueue()
    waits, now = [], 0.0
    pod = _pod("p")
    for _ in range(6):
        due = queue.back_off(pod, "key", now)
        waits.append(due - now)
        assert queue.flush_backoff(now) == due
        assert queue.pop() is None
        now = due
        assert queue.flush_backoff(now) is None
        again = queue.pop()
        assert again is pod
    assert waits == [1, 2, 4, 8, 10, 10]


def test_removed_pod_is_forgotten() -> None:
    queue = SchedulingQueue()
    queue.add(_pod("a"), "x")
    queue.back_off(_pod("b"), "y", 0)
    for uid in ("a", "b", "never"):
        queue.remove(uid)
    assert queue.flush_backoff(100) is None
    assert queue.pop() is None
    assert len(queue) == 0


def test_only_awaited_events_wake_a_group() -> None:
    assert ClusterEvent.CLAIM_FREED not in events_for({"resources"})
    assert ClusterEvent.POD_GONE in events_for({"resources", "devices"})
    assert events_for({"device-resources"}) == events_for({"devices"}) | {ClusterEvent.POD_GONE}
    assert events_for({"undecided"}) == events_for({"devices"}) | {ClusterEvent.CLAIM_ALLOCATED}
    assert events_for(()) == frozenset()
