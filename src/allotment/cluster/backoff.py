"""Exponential backoff with jitter and an upper limit."""

from __future__ import annotations

from random import Random


class Backoff:
    """Delays between the retries of one operation.

    >>> waits = Backoff(Random(1), first=1, longest=5)
    >>> [0.5 <= waits.next() <= 1, 1 <= waits.next() <= 2, waits.next() <= 4, waits.next() <= 5]
    [True, True, True, True]
    """

    def __init__(self, random: Random, *, first: float = 0.05, longest: float = 30.0) -> None:
        self._random = random
        self._first = first
        self._longest = longest
        self.failures = 0

    def next(self) -> float:
        """Record a failure and return the delay in seconds before the next try."""
        self.failures += 1
        whole: float = min(self._first * 2 ** min(self.failures - 1, 32), self._longest)
        # Half of it is random, so that clients that failed together do not retry together.
        return whole * (0.5 + self._random.random() / 2)

    def reset(self) -> None:
        """Forget the failures after a success."""
        self.failures = 0
