"""Locks that allow one call at a time for each claim, and one process at a time for the checkpoint.

Calls for different claims run concurrently. The process holds the checkpoint's lock while any call runs and releases it
after the last one, so that in a rolling update the other process can acquire it between calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from allotment.drivers.host import CheckpointStorage


class _ClaimLock:
    """The lock of a claim, and the number of its holders and waiters."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class ClaimLocks:
    """The locks of a driver. ``on_acquired`` is called after the checkpoint was locked: others may have changed it."""

    def __init__(self, storage: CheckpointStorage, on_acquired: Callable[[], None]) -> None:
        self._storage = storage
        self._on_acquired = on_acquired
        self._claims: dict[str, _ClaimLock] = {}
        self._all = asyncio.Lock()
        self._users = 0
        self._acquiring: asyncio.Task[None] | None = None
        self._lock: AsyncExitStack | None = None

    def is_busy(self, uid: str) -> bool:
        """Whether a call for the claim is in progress or waiting."""
        return uid in self._claims

    @asynccontextmanager
    async def claim(self, uid: str) -> AsyncIterator[None]:
        """Lock a claim. Raises CheckpointLocked."""
        if self._all.locked():
            async with self._all:
                pass
        lock = self._claims.setdefault(uid, _ClaimLock())
        lock.users += 1
        try:
            # In this order: a call that arrives while the checkpoint's lock is being acquired must not overtake others.
            async with lock.lock, self.checkpoint():
                yield
        finally:
            lock.users -= 1
            if not lock.users:
                del self._claims[uid]

    @asynccontextmanager
    async def all_claims(self) -> AsyncIterator[None]:
        """Lock all claims: wait for calls in progress, block new ones. Raises CheckpointLocked."""
        async with self._all:
            for lock in tuple(self._claims.values()):
                while lock.users:
                    async with lock.lock:
                        pass
                    await asyncio.sleep(0)
            async with self.checkpoint():
                yield

    @asynccontextmanager
    async def checkpoint(self) -> AsyncIterator[None]:
        """Exclude other processes. Raises CheckpointLocked."""
        self._users += 1
        try:
            while self._lock is None:
                if self._acquiring is None:
                    self._acquiring = asyncio.create_task(self._acquire())
                # All waiters share one acquisition and its result.
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
                if self._users:  # otherwise all waiters were canceled
                    self._lock = stack.pop_all()
        finally:
            self._acquiring = None
