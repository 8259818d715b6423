"""Asyncio locks by key; a lock exists only while a task holds it or waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class _CountedLock:
    """A lock and the number of tasks that hold it or wait for it."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class KeyedLocks(Generic[K]):
    """A set of locks. Keys must be sortable: locks are acquired in sorted order, which prevents deadlocks."""

    def __init__(self) -> None:
        self._turns: dict[K, _CountedLock] = {}

    @asynccontextmanager
    async def hold(self, keys: Iterable[K]) -> AsyncIterator[None]:
        """Hold the locks of all these keys."""
        wanted: list[Any] = sorted(set(keys))  # there is no standard type for sortable values
        turns = [(key, self._turns.setdefault(key, _CountedLock())) for key in wanted]
        for _, turn in turns:
            turn.users += 1
        try:
            async with AsyncExitStack() as stack:
                for _, turn in turns:
                    await stack.enter_async_context(turn.lock)
                yield
        finally:
            for key, turn in turns:
                turn.users -= 1
                if not turn.users:
                    del self._turns[key]
