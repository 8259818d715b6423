"""Completion indexes of a Job, in the text form of its status: ``0,2-4``.

They are stored as intervals. A Job may have two thousand million completions, and a client may write any range into a
status or a success policy: the cost depends on the length of the text, not on the number of indexes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

Run = tuple[int, int]
"""The first and the last number."""


@dataclass(frozen=True, slots=True)
class Indexes:
    """A set of indexes: intervals in ascending order, with at least one number between two of them."""

    runs: tuple[Run, ...] = ()

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.runs)

    def __contains__(self, index: int) -> bool:
        position = bisect_right(self.runs, (index, inf))
        return position > 0 and index <= self.runs[position - 1][1]

    def __or__(self, other: Indexes) -> Indexes:
        return _joined((*self.runs, *other.runs))

    def __and__(self, other: Indexes) -> Indexes:
        common: list[Run] = []
        own, other_runs = iter(self.runs), iter(other.runs)
        left, right = next(own, None), next(other_runs, None)
        while left and right:
            first, last = max(left[0], right[0]), min(left[1], right[1])
            if first <= last:
                common.append((first, last))
            if left[1] < right[1]:
                left = next(own, None)
            else:
                right = next(other_runs, None)
        return Indexes(tuple(common))

    def below(self, end: int) -> Indexes:
        """The indexes less than ``end``."""
        return self & Indexes(((0, end - 1),)) if end > 0 else Indexes()

    def absent(self, end: int) -> Iterator[int]:
        """The numbers below ``end`` that are not in the set, in ascending order.

        >>> list(parse_indexes("0,2-4").absent(7))
        [1, 5, 6]
        """
        begin = 0
        for first, last in self.runs:
            yield from range(begin, min(first, end))
            begin = last + 1
        yield from range(begin, end)


def indexes_of(numbers: Iterable[int]) -> Indexes:
    """Create a set from numbers in any order."""
    return _joined((number, number) for number in numbers)


def parse_indexes(text: str | None) -> Indexes:
    """Parse indexes. Raises ValueError for invalid text.

    >>> parse_indexes("0,2-3,4").runs
    ((0, 0), (2, 4))
    """
    runs: list[Run] = []
    for part in (text or "").split(","):
        if part:
            first, _, last = part.partition("-")
            runs.append((int(first), int(last or first)))
    return _joined(runs)


def format_indexes(indexes: Indexes) -> str:
    """The shortest text form: two neighbors are a list, three a range.

    >>> format_indexes(indexes_of([4, 0, 2, 3]))
    '0,2-4'
    """
    parts = [f"{a}" if a == b else f"{a},{b}" if b == a + 1 else f"{a}-{b}" for a, b in indexes.runs]
    return ",".join(parts)


def _joined(runs: Iterable[Run]) -> Indexes:
    joined: list[Run] = []
    for first, last in sorted(runs):
        if first > last:
            continue
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((first, last))
    return Indexes(tuple(joined))
