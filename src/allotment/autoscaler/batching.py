"""When to plan: pods come in flocks, and one plan for all of them is better and cheaper than one for each."""

from __future__ import annotations


class Batch:
    """What has come since the last plan. ``idle``: seconds without news that end it; ``longest``: in all."""

    def __init__(self, idle: float, longest: float) -> None:
        self._idle = idle
        self._longest = longest
        self._first: float | None = None
        self._last = 0.0

    def add(self, now: float) -> None:
        """Something has come."""
        if self._first is None:
            self._first = now
        self._last = now

    def due(self) -> float | None:
        """When it is complete; None while there is nothing in it."""
        if self._first is None:
            return None
        return min(self._last + self._idle, self._first + self._longest)

    def take(self) -> None:
        """It is being planned for."""
        self._first = None
