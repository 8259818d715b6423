"""The scheduling queue: pending pods in groups of equivalent pods.

Pods with equal requirements form one group: if no node is feasible for the first, none is for the others, so they are
parked together until an event that can resolve their causes. Five thousand pending replicas are then one entry here
instead of five thousand attempts for every freed device.

The pods of a hierarchy of PodGroups form one group, too, whose key is a `GroupKey`; they are attempted together.

A group is *ready* (in order of priority, then age), or *parked* until one of its awaited events. A pod whose attempt
ended with an error is retried after a back-off that doubles from one second to ten.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable, Iterable, Iterator
from typing import Final

from allotment.scheduler.cluster_events import ClusterEvent
from allotment.scheduler.group_key import GroupKey
from allotment.scheduler.pods import QueuedPod

#: Back-off in seconds: after the first error, and the maximum.
_INITIAL_BACKOFF: Final = 1.0
_MAX_BACKOFF: Final = 10.0


class EquivalenceGroup:
    """Equivalent pods, oldest first."""

    __slots__ = ("awaited_events", "key", "pods", "priority", "ready", "verdict")

    def __init__(self, key: Hashable, priority: int) -> None:
        self.key = key
        self.priority = priority
        self.pods: dict[str, QueuedPod] = {}
        self.ready = False
        self.awaited_events: frozenset[ClusterEvent] = frozenset()
        self.verdict: object = None
        """The reason why the group is parked; None if it is not."""


class SchedulingQueue:
    """All queued pods, each exactly once. Times are in seconds."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, EquivalenceGroup] = {}
        self._heap: list[tuple[int, str, int, EquivalenceGroup]] = []
        self._numbers = itertools.count()
        self._group_by_uid: dict[str, EquivalenceGroup | None] = {}
        """Group by pod uid; None for a pod in back-off."""
        self._backoff_heap: list[tuple[float, int, QueuedPod, Hashable]] = []
        self._backing_off: dict[str, QueuedPod] = {}

    def __len__(self) -> int:
        return len(self._group_by_uid)

    def __contains__(self, uid: str) -> bool:
        return uid in self._group_by_uid

    def parked(self, uid: str) -> QueuedPod | None:
        """Return a queued pod whose next attempt requires an event; None if it is ready, in back-off, or not queued."""
        group = self._group_by_uid.get(uid)
        return group.pods[uid] if group is not None and group.verdict is not None else None

    def groups(self) -> Iterator[EquivalenceGroup]:
        """Return all groups."""
        return iter(tuple(self._groups.values()))

    @property
    def has_ready(self) -> bool:
        """Whether there may be pods to attempt now."""
        return bool(self._heap)

    # --- adding and removing-------------------------------------------------------------------------------------

    def add(self, pod: QueuedPod, key: Hashable) -> EquivalenceGroup | None:
        """Add a pod. Return its group if that is parked: the pod then shares its verdict without an attempt."""
        self.remove(pod.uid)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = EquivalenceGroup(key, pod.priority)
        group.pods[pod.uid] = pod
        pod.group = key
        self._group_by_uid[pod.uid] = group
        if group.verdict is not None:
            return group
        self._make_ready(group)
        return None

    def replace(self, pod: QueuedPod) -> None:
        """Update a pod whose new state does not change its group."""
        if pod.uid in self._backing_off:
            self._backing_off[pod.uid] = pod
            return
        group = self._group_by_uid.get(pod.uid)
        if group is not None:
            group.pods[pod.uid] = pod
            pod.group = group.key

    def separate(self, pod: QueuedPod, key: Hashable) -> None:
        """Update a pod and move it to a group of its own; it stays parked or ready."""
        group = self._group_by_uid.get(pod.uid)
        if group is None:
            self.replace(pod)
        elif group.verdict is None:
            self.add(pod, key)
        else:
            self.park(pod, key, group.verdict, group.awaited_events)

    def remove(self, uid: str) -> QueuedPod | None:
        """Remove a pod and return it; None if it is not queued."""
        if uid not in self._group_by_uid:
            return None
        group = self._group_by_uid.pop(uid)
        if group is None:
            return self._backing_off.pop(uid, None)
        pod = group.pods.pop(uid)
        if not group.pods:
            self._groups.pop(group.key, None)
        return pod

    # --- attempts ------------------------------------------------------------------------------------------------

    def pop(self) -> QueuedPod | None:
        """Remove and return the next pod to attempt; None if no group is ready."""
        while self._heap:
            group = heapq.heappop(self._heap)[3]
            group.ready = False
            if group.verdict is not None or not group.pods or self._groups.get(group.key) is not group:
                continue
            uid, pod = next(iter(group.pods.items()))
            del group.pods[uid]
            del self._group_by_uid[uid]
            if group.pods:
                self._make_ready(group)
            else:
                del self._groups[group.key]
            return pod
        return None

    def take_group(self, key: GroupKey) -> list[QueuedPod]:
        """Remove and return all pods of a hierarchy of PodGroups, including those in back-off."""
        group = self._groups.get(key)
        found = list(group.pods.values()) if group is not None else []
        for _, _, pod, backoff_key in self._backoff_heap:
            current = self._backing_off.get(pod.uid)
            if backoff_key == key and current is not None and current not in found:
                found.append(current)
        for pod in found:
            self.remove(pod.uid)
        return found

    def park(
        self, pod: QueuedPod, key: Hashable, verdict: object, awaited_events: frozenset[ClusterEvent]
    ) -> EquivalenceGroup:
        """Park a pod and its whole group until one of the awaited events; return the group."""
        self.remove(pod.uid)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = EquivalenceGroup(key, pod.priority)
        group.pods = {pod.uid: pod, **group.pods}
        pod.group = key
        self._group_by_uid[pod.uid] = group
        group.verdict = verdict
        group.awaited_events = awaited_events
        return group

    def back_off(self, pod: QueuedPod, key: Hashable, now: float) -> float:
        """Put a pod whose attempt ended with an error into back-off; return the time of its next attempt."""
        self.remove(pod.uid)
        pod.failures += 1
        due = now + min(_INITIAL_BACKOFF * float(1 << min(pod.failures - 1, 8)), _MAX_BACKOFF)
        self._group_by_uid[pod.uid] = None
        self._backing_off[pod.uid] = pod
        heapq.heappush(self._backoff_heap, (due, next(self._numbers), pod, key))
        return due

    def flush_backoff(self, now: float) -> float | None:
        """Make pods ready whose back-off is over; return when the next one ends, None if there is none."""
        while self._backoff_heap:
            due, _, pod, key = self._backoff_heap[0]
            current = self._backing_off.get(pod.uid)
            if current is None:
                heapq.heappop(self._backoff_heap)
                continue
            if due > now:
                return due
            heapq.heappop(self._backoff_heap)
            failures = pod.failures
            current.failures = failures
            self.add(current, key if isinstance(key, GroupKey) else (key, pod.uid))
            if isinstance(key, GroupKey):
                self.wake_group(key)
        return None

    # --- waking --------------------------------------------------------------------------------------------------

    def wake(self, events: Iterable[ClusterEvent]) -> int:
        """Make the groups ready that wait for any of these events; return how many."""
        occurred = frozenset(events)
        woken = 0
        for group in self._groups.values():
            if group.verdict is not None and not group.awaited_events.isdisjoint(occurred):
                group.verdict = None
                self._make_ready(group)
                woken += 1
        return woken

    def wake_group(self, key: Hashable) -> None:
        """Make one group ready if it is parked."""
        group = self._groups.get(key)
        if group is not None and group.verdict is not None:
            group.verdict = None
            self._make_ready(group)

    def _make_ready(self, group: EquivalenceGroup) -> None:
        if group.ready or not group.pods:
            return
        group.ready = True
        first = next(iter(group.pods.values()))
        heapq.heappush(self._heap, (-group.priority, first.created, next(self._numbers), group))
