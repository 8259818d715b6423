"""Graceful shutdown: programs start no more work and finish what is in progress.

Cancellation, in contrast, ends a program immediately. Programs tolerate it, but unfinished work then waits until
another process resumes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final


class ShutdownStarted(Exception):
    """Raised during a shutdown by work that would only wait; the next process resumes it."""


class Shutdown:
    """The shutdown of a process. Programs check ``started`` before they start a piece of work."""

    def __init__(self) -> None:
        self.started = False
        self._callbacks: list[Callable[[], None]] = []

    def start(self) -> None:
        """Start the shutdown and call the registered callbacks."""
        self.started = True
        for notify in tuple(self._callbacks):
            notify()

    @contextmanager
    def callback(self, notify: Callable[[], None]) -> Iterator[None]:
        """Call ``notify`` if the shutdown starts within the block."""
        self._callbacks.append(notify)
        try:
            yield
        finally:
            self._callbacks.remove(notify)

    async def wait(self) -> None:
        """Wait until the shutdown has started."""
        started = asyncio.Event()
        with self.callback(started.set):
            if not self.started:
                await started.wait()

    async def run_until_shutdown(self, coming: Coroutine[Any, Any, None]) -> bool:
        """Wait for a coroutine, but cancel it when the shutdown starts. Returns whether it completed."""
        waiting = asyncio.ensure_future(coming)
        with self.callback(lambda: _cancel(waiting)):
            if self.started:
                waiting.cancel()
            try:
                await asyncio.wait([waiting])
            finally:
                waiting.cancel()
        if waiting.cancelled():
            return False
        waiting.result()
        return True


def _cancel(task: asyncio.Future[None]) -> None:
    task.cancel()


#: For programs that end by cancellation.
NEVER: Final = Shutdown()
