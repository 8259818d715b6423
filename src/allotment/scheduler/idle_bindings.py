"""Pods on their way to a node that only wait: for the word of other schedulers, or until devices are ready.

That may take minutes and costs nothing, so they count for nothing where it is asked how many are written at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Resting:
    """How many there are. ``begins``: told of each, for there is room for another now."""

    def __init__(self, begins: Callable[[], None]) -> None:
        self.pods = 0
        self._begins = begins

    @contextmanager
    def one(self) -> Iterator[None]:
        """A pod rests inside."""
        self.pods += 1
        self._begins()
        try:
            yield
        finally:
            self.pods -= 1
