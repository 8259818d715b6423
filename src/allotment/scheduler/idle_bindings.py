"""Counts bindings that only wait: for the settling period, or until devices are ready.

Waiting can take minutes and costs nothing, so these bindings do not count towards the limit of concurrent bindings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class IdleBindings:
    """The number of idle bindings. ``on_idle`` is called whenever one becomes idle and frees a slot."""

    def __init__(self, on_idle: Callable[[], None]) -> None:
        self.count = 0
        self._on_idle = on_idle

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Count a binding as idle inside the ``with`` block."""
        self.count += 1
        self._on_idle()
        try:
            yield
        finally:
            self.count -= 1
