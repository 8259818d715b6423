"""The window of recent changes, which watches resume from and past states are computed from.

A past state is the current one with later changes undone, so only changes are stored. The window is limited by age,
number and size, whichever is reached first. It is truncated at batch boundaries, so one mark per batch is enough.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from allotment.apiserver.storage.buckets import Key
from allotment.apiserver.storage.store import Change, Entry


class Window(NamedTuple):
    """Limits of the history: seconds, number of changes, and bytes of their JSON.

    The age is the usual etcd compaction interval of Kubernetes. The size limits memory use under heavy load.
    """

    age: float = 300.0
    number: int = 100_000
    weight: int = 64 * 1024 * 1024


DEFAULT_WINDOW = Window()
#: Relative excess before the window is truncated, because each truncation costs a transaction.
_SLACK = 0.125


class _Mark(NamedTuple):
    """The end of a batch, with its number and size of changes."""

    revision: int
    time: float
    number: int
    weight: int


class _Track:
    """The changes of one resource, oldest first, and their revisions for binary search."""

    __slots__ = ("changes", "revisions")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.revisions: list[int] = []


class History:
    """The changes of all resources after ``oldest``."""

    def __init__(self, window: Window, oldest: int) -> None:
        self.oldest = oldest
        self.window = window
        self._tracks: dict[str, _Track] = {}
        self._marks: deque[_Mark] = deque()
        self._number = self._weight = 0  # of completed batches
        self._open_number = self._open_weight = 0  # of the current batch

    def add(self, change: Change) -> None:
        """Add a change, which must be newer than all others."""
        track = self._tracks.get(change.resource)
        if track is None:
            track = self._tracks[change.resource] = _Track()
        entry = change.entry
        track.changes.append(change)
        track.revisions.append(entry.revision)
        self._open_number += 1
        self._open_weight += len(entry.json)

    def mark(self, revision: int, time: float) -> None:
        """End the current batch."""
        self._marks.append(_Mark(revision, time, self._open_number, self._open_weight))
        self._number += self._open_number
        self._weight += self._open_weight
        self._open_number = self._open_weight = 0

    def overdue(self, now: float) -> int:
        """The revision up to which changes exceed the window; ``oldest`` if none do."""
        if not self._exceeds(now, 1 + _SLACK):
            return self.oldest
        number, weight, revision = self._number, self._weight, self.oldest
        for mark in self._marks:
            age = now - mark.time
            if number <= self.window.number and weight <= self.window.weight and age <= self.window.age:
                break
            number, weight, revision = number - mark.number, weight - mark.weight, mark.revision
        return revision

    def _exceeds(self, now: float, factor: float) -> bool:
        age = now - self._marks[0].time if self._marks else 0.0
        return (
            self._number > self.window.number * factor
            or self._weight > self.window.weight * factor
            or age > self.window.age * factor
        )

    def forget(self, revision: int) -> None:
        """Drop the changes up to a revision."""
        self.oldest = revision
        for track in self._tracks.values():
            count = bisect_right(track.revisions, revision)
            del track.revisions[:count], track.changes[:count]
        while self._marks and self._marks[0].revision <= revision:
            mark = self._marks.popleft()
            self._number -= mark.number
            self._weight -= mark.weight

    def after(self, resource: str, revision: int) -> Sequence[Change]:
        """The changes of a resource after a revision, oldest first."""
        track = self._tracks.get(resource)
        if track is None:
            return ()
        return track.changes[bisect_right(track.revisions, revision) :]

    def states_at(self, resource: str, revision: int) -> dict[Key, Entry | None]:
        """The state at a revision (None: absent) of each object with_changes since."""
        return {
            (change.entry.namespace, change.entry.name): change.previous
            for change in reversed(self.after(resource, revision))
        }
