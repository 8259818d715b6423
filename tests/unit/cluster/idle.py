"""Time that goes by only while nobody has anything to do: the same story on any machine, and no waiting for it.

A test that lets real time pass says something of the machine as well: where that is busy, what happens within a second
is another thing. Here a loop without work goes to the next moment at which somebody wants to be woken.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar, TypeVarTuple

from allotment.cluster.clock import Clock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_START: Final = datetime(2026, 6, 1, tzinfo=UTC)


def run(story: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`."""
    with asyncio.Runner(loop_factory=IdleLoop) as runner:
        return runner.run(story)


def stand_still(seconds: float) -> None:
    """The whole process does nothing for so long, though somebody would have wanted to be woken."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, IdleLoop)
    loop.stand_still(seconds)


class IdleClock(Clock):
    """The clock of such a loop."""

    def moment(self) -> datetime:
        """A day on which the loop began, and what has gone by."""
        return _START + timedelta(seconds=asyncio.get_running_loop().time())


class _Selector(selectors.SelectSelector):
    """Waits for nobody: the time that it was to wait has gone by."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise AssertionError("everybody waits for what will never happen")
            self.now += timeout
        return ready


class IdleLoop(asyncio.SelectorEventLoop):
    """Work for other threads is done at once, in no time."""

    def __init__(self) -> None:
        self._idle = _Selector()
        super().__init__(self._idle)

    def time(self) -> float:
        """Seconds since the loop began."""
        return self._idle.now

    def stand_still(self, seconds: float) -> None:
        """Time goes by, and nobody is woken."""
        self._idle.now += seconds

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """As soon as the loop comes to it."""

        async def done() -> T:
            return func(*args)

        return self.create_task(done())
