"""Work that takes its time beside the decisions: requests, and waiting for what they lead to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


class UnderWay:
    """Can be begun from plain functions while `going`."""

    def __init__(self) -> None:
        self._tasks: asyncio.TaskGroup | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def going(self, *beside: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        """Work can begin; at the end all of it is waited for, and what goes on for ever beside it is called off."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for_ever = [tasks.create_task(one) for one in beside]
                yield
                while self._under_way:
                    await asyncio.wait(self._under_way)
                for task in for_ever:
                    task.cancel()
        finally:
            self._tasks = None

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Begin a piece of work."""
        assert self._tasks is not None
        task = self._tasks.create_task(work, name=name)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
