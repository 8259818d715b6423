"""An event loop with simulated time, which advances only while no task is ready: fast tests, equal on every machine.

The result of a test that waits in real time depends on the load of the machine. This loop advances its clock to the
next timer when there is no work.
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


def run(scenario: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in such a loop, like ``asyncio.run``."""
    with asyncio.Runner(loop_factory=IdleLoop) as runner:
        return runner.run(scenario)


def suspend(seconds: float) -> None:
    """Advance the time without running timers, as if the process had been suspended."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, IdleLoop)
    loop.skip(seconds)


class IdleClock(Clock):
    """A clock with the time of the loop."""

    def moment(self) -> datetime:
        """A fixed date plus the time of the loop."""
        return _START + timedelta(seconds=asyncio.get_running_loop().time())


class _Selector(selectors.SelectSelector):
    """Advances the time by the timeout instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise AssertionError("all tasks wait and no timer is set")
            self.now += timeout
        return ready


class IdleLoop(asyncio.SelectorEventLoop):
    """Runs the work of executors in the loop, in zero time."""

    def __init__(self) -> None:
        self._idle = _Selector()
        super().__init__(self._idle)

    def time(self) -> float:
        """Seconds since the start of the loop."""
        return self._idle.now

    def skip(self, seconds: float) -> None:
        """Advance the time without running timers."""
        self._idle.now += seconds

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Run the function as a task of the loop."""

        async def done() -> T:
            return func(*args)

        return self.create_task(done())
