"""How long to wait after the nth failure in a row: doubling, bounded, and never all at the same moment."""

from __future__ import annotations

from random import Random


class Backoff:
    """Waits for one thing that fails again and again.

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
        """Note a failure; the seconds to wait now."""
        self.failures += 1
        whole: float = min(self._first * 2 ** min(self.failures - 1, 32), self._longest)
        # Half of it is chance, so that many who failed together do not come back together.
        return whole * (0.5 + self._random.random() / 2)

    def reset(self) -> None:
        """It went well."""
        self.failures = 0
