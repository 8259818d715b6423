"""Who waits where, and who comes next."""

from __future__ import annotations

from typing import Any

from allotment.node_fit.pod_requirements import Demands
from allotment.scheduler.cluster_events import Happening, helped_by
from allotment.scheduler.pods import WaitingPod
from allotment.scheduler.queue import Queue
from tests.unit.scheduler.machines import tree_of

_DEMANDS = Demands()
FREED = frozenset({Happening.CLAIM_FREED})


def _pod(name: str, **more: Any) -> WaitingPod:
    tree = tree_of(name, **more)
    return WaitingPod(tree, _DEMANDS.of(tree["spec"]))


def _order(queue: Queue) -> list[str]:
    names = []
    while (pod := queue.pop()) is not None:
        names.append(pod.uid)
    return names


def test_higher_priority_comes_first_then_the_older() -> None:
    queue = Queue()
    queue.add(_pod("new", created="2026-01-02T00:00:00Z"), "x")
    queue.add(_pod("old", created="2026-01-01T00:00:00Z"), "y")
    queue.add(_pod("urgent", priority=5, created="2026-01-03T00:00:00Z"), "z")
    assert _order(queue) == ["urgent", "old", "new"]


def test_group_shares_the_fate_of_its_first() -> None:
    queue = Queue()
    pods = [_pod(f"p{n}") for n in range(3)]
    for pod in pods:
        queue.add(pod, "same")
    first = queue.pop()
    assert first is pods[0]
    group = queue.park(first, "same", "no room", FREED)
    assert list(group.pods) == ["p0", "p1", "p2"]
    assert queue.pop() is None
    assert queue.add(_pod("late"), "same") is group
    assert queue.wake({Happening.NODE}) == 0
    assert queue.wake({Happening.CLAIM_FREED}) == 1
    assert _order(queue) == ["p0", "p1", "p2", "late"]


def test_errors_wait_longer_each_time_up_to_ten_seconds() -> None:
    queue = Queue()
    waits, now = [], 0.0
    pod = _pod("p")
    for _ in range(6):
        due = queue.back_off(pod, "key", now)
        waits.append(due - now)
        assert queue.due(now) == due
        assert queue.pop() is None
        now = due
        assert queue.due(now) is None
        again = queue.pop()
        assert again is pod
    assert waits == [1, 2, 4, 8, 10, 10]


def test_pod_that_is_gone_is_nowhere() -> None:
    queue = Queue()
    queue.add(_pod("a"), "x")
    queue.back_off(_pod("b"), "y", 0)
    for uid in ("a", "b", "never"):
        queue.remove(uid)
    assert queue.due(100) is None
    assert queue.pop() is None
    assert len(queue) == 0


def test_only_what_may_help_wakes() -> None:
    assert Happening.CLAIM_FREED not in helped_by({"resources"})
    assert Happening.POD_GONE in helped_by({"resources", "devices"})
    assert helped_by({"undecided"}) == helped_by({"devices"}) | {Happening.CLAIM_ALLOCATED}
    assert helped_by(()) == frozenset()
