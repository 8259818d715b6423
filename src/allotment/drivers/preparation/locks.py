"""Whose turn it is: one call at a time for a claim, one process at a time for a checkpoint.

Claims are worked on side by side. While any of them is, this process holds the checkpoint's lock; it lets go when the
last is done, so that in a rolling update the other process gets its turn between calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from allotment.drivers.host import CheckpointStorage


class _ClaimLock:
    """A claim's lock, and how many hold it or wait for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class ClaimLocks:
    """See the module. ``begun`` is called when the lock of the checkpoint was taken: others may have written before."""

    def __init__(self, storage: CheckpointStorage, begun: Callable[[], None]) -> None:
        self._storage = storage
        self._on_acquired = begun
        self._claims: dict[str, _ClaimLock] = {}
        self._quiet = asyncio.Lock()
        self._users = 0
        self._acquiring: asyncio.Task[None] | None = None
        self._lock: AsyncExitStack | None = None

    def is_busy(self, uid: str) -> bool:
        """Whether a call for a claim is under way or waits."""
        return uid in self._claims

    @asynccontextmanager
    async def claim(self, uid: str) -> AsyncIterator[None]:
        """The turn of a claim. Raises Held."""
        if self._quiet.locked():
            async with self._quiet:
                pass
        turn = self._claims.setdefault(uid, _ClaimLock())
        turn.users += 1
        try:
            # In this order: a call that begins while the lock of the checkpoint is being taken must not pass others.
            async with turn.lock, self.checkpoint():
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                del self._claims[uid]

    @asynccontextmanager
    async def all_claims(self) -> AsyncIterator[None]:
        """Nobody's turn: begun ones end first, new ones wait. Raises Held."""
        async with self._quiet:
            for turn in tuple(self._claims.values()):
                while turn.users:
                    async with turn.lock:
                        pass
                    await asyncio.sleep(0)
            async with self.checkpoint():
                yield

    @asynccontextmanager
    async def checkpoint(self) -> AsyncIterator[None]:
        """No other process meanwhile. Raises Held."""
        self._users += 1
        try:
            while self._lock is None:
                if self._acquiring is None:
                    self._acquiring = asyncio.create_task(self._acquire())
                # Those who wait together get the lock together, or the same answer.
                await asyncio.shield(self._acquiring)
            yield
        finally:
            self._users -= 1
            if not self._users and self._lock is not None:
                lock, self._lock = self._lock, None
                await lock.aclose()

    async def _acquire(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(self._storage.lock())
                self._on_acquired()
                if self._users:  # else everybody has gone meanwhile
                    self._lock = stack.pop_all()
        finally:
            self._acquiring = None
