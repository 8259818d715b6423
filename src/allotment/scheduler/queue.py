"""Pods that wait for a node, in groups that share their fate.

Pods that ask for the same are one group: if the first of them finds no node, none of the others would, so they wait
together and cost nothing until something happens that may help them. Five thousand pending replicas are then one entry
here and not five thousand attempts for every device that is freed.

A group is *ready* (in order of priority, then age), or *parked* until one of the happenings that may help it. A pod
whose attempt ended with an error comes back by itself after a while that doubles from one second to ten.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable, Iterable, Iterator
from typing import Final

from allotment.scheduler.cluster_events import Happening
from allotment.scheduler.pods import WaitingPod

#: Seconds after the first error of an attempt, and at most.
_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 10.0


class Group:
    """Pods with the same fate, oldest first."""

    __slots__ = ("helped_by", "key", "pods", "priority", "ready", "verdict")

    def __init__(self, key: Hashable, priority: int) -> None:
        self.key = key
        self.priority = priority
        self.pods: dict[str, WaitingPod] = {}
        self.ready = False
        self.helped_by: frozenset[Happening] = frozenset()
        self.verdict: object = None
        """Why it is parked."""


class Queue:
    """All pods that wait, each in exactly one place. Time comes in as seconds."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, Group] = {}
        self._heap: list[tuple[int, str, int, Group]] = []
        self._numbers = itertools.count()
        self._where: dict[str, Group | None] = {}
        """Group by pod; None for a pod that waits after an error."""
        self._later: list[tuple[float, int, WaitingPod, Hashable]] = []
        self._alone: dict[str, WaitingPod] = {}

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, uid: str) -> bool:
        return uid in self._where

    def groups(self) -> Iterator[Group]:
        """All groups."""
        return iter(tuple(self._groups.values()))

    @property
    def busy(self) -> bool:
        """Whether there are pods to try now (or were, a moment ago)."""
        return bool(self._heap)

    # --- coming and going ----------------------------------------------------------------------------------------

    def add(self, pod: WaitingPod, key: Hashable) -> Group | None:
        """A pod waits. Returns its group if that is parked: then the pod shares its verdict without an attempt."""
        self.remove(pod.uid)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key, pod.priority)
        group.pods[pod.uid] = pod
        pod.group = key
        self._where[pod.uid] = group
        if group.verdict is not None:
            return group
        self._make_ready(group)
        return None

    def replace(self, pod: WaitingPod) -> None:
        """A pod has a new state that changes nothing for its group."""
        if pod.uid in self._alone:
            self._alone[pod.uid] = pod
            return
        group = self._where.get(pod.uid)
        if group is not None:
            group.pods[pod.uid] = pod
            pod.group = group.key

    def set_apart(self, pod: WaitingPod, key: Hashable) -> None:
        """A pod has a new state that changes nothing for now, but has a fate, and a group, of its own from here on."""
        group = self._where.get(pod.uid)
        if group is None:
            self.replace(pod)
        elif group.verdict is None:
            self.add(pod, key)
        else:
            self.park(pod, key, group.verdict, group.helped_by)

    def remove(self, uid: str) -> WaitingPod | None:
        """A pod waits no longer."""
        if uid not in self._where:
            return None
        group = self._where.pop(uid)
        if group is None:
            return self._alone.pop(uid, None)
        pod = group.pods.pop(uid)
        if not group.pods:
            self._groups.pop(group.key, None)
        return pod

    # --- trying --------------------------------------------------------------------------------------------------

    def pop(self) -> WaitingPod | None:
        """The next pod to try; it is in the queue no longer."""
        while self._heap:
            group = heapq.heappop(self._heap)[3]
            group.ready = False
            if group.verdict is not None or not group.pods or self._groups.get(group.key) is not group:
                continue
            uid, pod = next(iter(group.pods.items()))
            del group.pods[uid]
            del self._where[uid]
            if group.pods:
                self._make_ready(group)
            else:
                del self._groups[group.key]
            return pod
        return None

    def park(self, pod: WaitingPod, key: Hashable, verdict: object, helped_by: frozenset[Happening]) -> Group:
        """A pod found no node: it and all of its group wait for something that may help."""
        self.remove(pod.uid)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key, pod.priority)
        group.pods = {pod.uid: pod, **group.pods}
        pod.group = key
        self._where[pod.uid] = group
        group.verdict = verdict
        group.helped_by = helped_by
        return group

    def back_off(self, pod: WaitingPod, key: Hashable, now: float) -> float:
        """A pod's attempt ended with an error; returns when it will be tried again."""
        self.remove(pod.uid)
        pod.failures += 1
        due = now + min(_FIRST_WAIT * float(1 << min(pod.failures - 1, 8)), _LONGEST_WAIT)
        self._where[pod.uid] = None
        self._alone[pod.uid] = pod
        heapq.heappush(self._later, (due, next(self._numbers), pod, key))
        return due

    def due(self, now: float) -> float | None:
        """Make those ready whose wait is over; returns when the next one's is, None if nobody waits for time."""
        while self._later:
            due, _, pod, key = self._later[0]
            current = self._alone.get(pod.uid)
            if current is None:
                heapq.heappop(self._later)
                continue
            if due > now:
                return due
            heapq.heappop(self._later)
            failures = pod.failures
            current.failures = failures
            self.add(current, (key, pod.uid))
        return None

    # --- waking --------------------------------------------------------------------------------------------------

    def wake(self, happenings: Iterable[Happening]) -> int:
        """Something happened: groups that it may help are ready; returns how many."""
        what = frozenset(happenings)
        woken = 0
        for group in self._groups.values():
            if group.verdict is not None and not group.helped_by.isdisjoint(what):
                group.verdict = None
                self._make_ready(group)
                woken += 1
        return woken

    def _make_ready(self, group: Group) -> None:
        if group.ready or not group.pods:
            return
        group.ready = True
        first = next(iter(group.pods.values()))
        heapq.heappush(self._heap, (-group.priority, first.created, next(self._numbers), group))
