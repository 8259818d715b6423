"""The wish that a process ends well: programs begin nothing more, and finish what is under way.

Being cancelled is the other way to end: at once, wherever one is. Programs are made so that this does no harm; but
what is half done waits then until somebody else takes it up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final


class Left(Exception):
    """Work that would only wait is left as it is, for whoever comes next: it is to stop."""


class Stopping:
    """Begun by whoever ends a process, asked by programs before they begin a piece of work."""

    def __init__(self) -> None:
        self.begun = False
        self._told: list[Callable[[], None]] = []

    def begin(self) -> None:
        """Have programs end; those that wait for something are told."""
        self.begun = True
        for tell in tuple(self._told):
            tell()

    @contextmanager
    def telling(self, tell: Callable[[], None]) -> Iterator[None]:
        """Call ``tell`` if it begins in the meantime."""
        self._told.append(tell)
        try:
            yield
        finally:
            self._told.remove(tell)

    async def wait(self) -> None:
        """Until it has begun."""
        begun = asyncio.Event()
        with self.telling(begun.set):
            if not self.begun:
                await begun.wait()

    async def unless(self, coming: Coroutine[Any, Any, None]) -> bool:
        """Wait for something, but not once it has begun; whether it came."""
        waiting = asyncio.ensure_future(coming)
        with self.telling(lambda: _call_off(waiting)):
            if self.begun:
                waiting.cancel()
            try:
                await asyncio.wait([waiting])
            finally:
                waiting.cancel()
        if waiting.cancelled():
            return False
        waiting.result()
        return True


def _call_off(task: asyncio.Future[None]) -> None:
    task.cancel()


#: For programs that are cancelled when nobody wants them any more.
NEVER: Final = Stopping()
