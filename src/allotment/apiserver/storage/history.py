"""The window of recent changes: what watches resume from, and what past states are rebuilt from.

A past state is the newest one with the later changes undone, so nothing but the changes is kept. The window is bounded
by age, by number and by weight, whichever is reached first; it is cut at the ends of batches, so its edges need one
mark per batch and not one per change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from allotment.apiserver.storage.buckets import Key
from allotment.apiserver.storage.store import Change, Entry


class Window(NamedTuple):
    """How much is remembered: seconds, changes, and bytes of their JSON.

    The age is etcd's usual compaction interval under Kubernetes. The weight bounds the memory of an overrun lab.
    """

    age: float = 300.0
    number: int = 100_000
    weight: int = 64 * 1024 * 1024


USUAL = Window()
#: How far the window may grow before it is cut: cutting costs a transaction, so it is not done at every batch.
_SLACK = 0.125


class _Mark(NamedTuple):
    """The end of a batch."""

    revision: int
    time: float
    number: int
    weight: int


class _Track:
    """The changes of one resource, oldest first, and their revisions for searching."""

    __slots__ = ("changes", "revisions")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.revisions: list[int] = []


class History:
    """Changes of all resources after ``oldest``."""

    def __init__(self, window: Window, oldest: int) -> None:
        self.oldest = oldest
        self.window = window
        self._tracks: dict[str, _Track] = {}
        self._marks: deque[_Mark] = deque()
        self._number = self._weight = 0  # of the marked batches
        self._open_number = self._open_weight = 0  # of the batch that is not marked yet

    def add(self, change: Change) -> None:
        """Remember a change, newer than all others."""
        track = self._tracks.get(change.resource)
        if track is None:
            track = self._tracks[change.resource] = _Track()
        entry = change.entry
        track.changes.append(change)
        track.revisions.append(entry.revision)
        self._open_number += 1
        self._open_weight += len(entry.json)

    def mark(self, revision: int, time: float) -> None:
        """A batch ends here: all that was added since the last mark."""
        self._marks.append(_Mark(revision, time, self._open_number, self._open_weight))
        self._number += self._open_number
        self._weight += self._open_weight
        self._open_number = self._open_weight = 0

    def overdue(self, now: float) -> int:
        """The revision up to which to forget, for the window to hold again; ``oldest`` if it does."""
        if not self._over(now, 1 + _SLACK):
            return self.oldest
        number, weight, revision = self._number, self._weight, self.oldest
        for mark in self._marks:
            age = now - mark.time
            if number <= self.window.number and weight <= self.window.weight and age <= self.window.age:
                break
            number, weight, revision = number - mark.number, weight - mark.weight, mark.revision
        return revision

    def _over(self, now: float, factor: float) -> bool:
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

    def undone(self, resource: str, revision: int) -> dict[Key, Entry | None]:
        """What was different at a revision: the earlier state (None: absent) of each object changed since."""
        return {
            (change.entry.namespace, change.entry.name): change.previous
            for change in reversed(self.after(resource, revision))
        }
