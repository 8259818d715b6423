"""Whose turn it is: one call at a time for a claim, one process at a time for a checkpoint.

Claims are worked on side by side. While any of them is, this process holds the checkpoint's lock; it lets go when the
last is done, so that in a rolling update the other process gets its turn between calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from allotment.drivers.host import Storage


class _Turn:
    """A claim's lock, and how many hold it or wait for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class Turns:
    """See the module. ``begun`` is called when the lock of the checkpoint was taken: others may have written before."""

    def __init__(self, storage: Storage, begun: Callable[[], None]) -> None:
        self._storage = storage
        self._begun = begun
        self._turns: dict[str, _Turn] = {}
        self._quiet = asyncio.Lock()
        self._users = 0
        self._taking: asyncio.Task[None] | None = None
        self._lock: AsyncExitStack | None = None

    def is_busy(self, uid: str) -> bool:
        """Whether a call for a claim is under way or waits."""
        return uid in self._turns

    @asynccontextmanager
    async def of(self, uid: str) -> AsyncIterator[None]:
        """The turn of a claim. Raises Held."""
        if self._quiet.locked():
            async with self._quiet:
                pass
        turn = self._turns.setdefault(uid, _Turn())
        turn.users += 1
        try:
            # In this order: a call that begins while the lock of the checkpoint is being taken must not pass others.
            async with turn.lock, self.alone():
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[uid]

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """Nobody's turn: begun ones end first, new ones wait. Raises Held."""
        async with self._quiet:
            for turn in tuple(self._turns.values()):
                while turn.users:
                    async with turn.lock:
                        pass
                    await asyncio.sleep(0)
            async with self.alone():
                yield

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """No other process meanwhile. Raises Held."""
        self._users += 1
        try:
            while self._lock is None:
                if self._taking is None:
                    self._taking = asyncio.create_task(self._take())
                # Those who wait together get the lock together, or the same answer.
                await asyncio.shield(self._taking)
            yield
        finally:
            self._users -= 1
            if not self._users and self._lock is not None:
                lock, self._lock = self._lock, None
                await lock.aclose()

    async def _take(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(self._storage.lock())
                self._begun()
                if self._users:  # else everybody has gone meanwhile
                    self._lock = stack.pop_all()
        finally:
            self._taking = None
