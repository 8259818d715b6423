"""Locks by key: whoever works on some things works on them alone; nothing is kept for what nobody works on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class _CountedLock:
    """A lock, and how many hold it or wait for it."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class KeyedLocks(Generic[K]):
    """The locks. Keys must have an order, the one in which they are taken: so nobody waits in a circle."""

    def __init__(self) -> None:
        self._turns: dict[K, _CountedLock] = {}

    @asynccontextmanager
    async def hold(self, keys: Iterable[K]) -> AsyncIterator[None]:
        """Alone with these keys."""
        wanted: list[Any] = sorted(set(keys))  # type checkers know no type of things that have an order
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
