"""Answers to what others send: computed in threads, a few at a time, each for a limited time.

The computation itself gives up after `LONGEST_ANSWER` (see `allotment.time_limits`), so that its thread is free again.
A request is answered after `_TIMEOUT` even if the computation does not give up, or has not begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final, TypeVar

from anyio import CapacityLimiter, to_thread

from allotment.queries.requests import LONGEST_ANSWER
from allotment.time_limits import TookTooLongError, time_limit
from allotment.web.problems import rejected

T = TypeVar("T")

#: Seconds after which a request has an answer, with the time that it waits for others.
_TIMEOUT: Final = 60.0
#: Requests that are computed or wait; more are rejected.
_MOST: Final = 18


class LimitedAnswers:
    """Computes answers. ``at_once``: how many at the same time; others wait, up to ``most`` together.

    ``stopping``: set when the server ends. ``seconds`` and ``timeout``: seconds for an answer, and for a request.
    """

    def __init__(
        self,
        at_once: int,
        stopping: asyncio.Event,
        most: int = _MOST,
        *,
        seconds: float | None = None,
        timeout: float = _TIMEOUT,
    ) -> None:
        self._limiter = CapacityLimiter(at_once)
        self._stopping = stopping
        self._most = most
        self._seconds = LONGEST_ANSWER if seconds is None else seconds
        self._timeout = timeout
        self._running: set[asyncio.Task[object]] = set()

    async def of(self, compute: Callable[[], T]) -> T:
        """Return what a function returns. Raises its errors, TookTooLongError, and ProblemError if too many wait."""
        if len(self._running) >= self._most:
            raise _busy()
        started = False

        def computed() -> T:
            nonlocal started
            started = True
            with time_limit(self._seconds, is_stopped=self._stopping.is_set):
                return compute()

        # A task of its own, which counts until the thread has ended, also after the request has been answered.
        task = asyncio.create_task(to_thread.run_sync(computed, limiter=self._limiter))
        self._running.add(task)
        task.add_done_callback(self._ended)
        await asyncio.wait((task,), timeout=self._timeout)
        if task.done():
            return task.result()
        if started:
            raise TookTooLongError(self._timeout)
        task.cancel()
        raise _busy()

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # it has been raised, or the request has been answered


async def unlimited(compute: Callable[[], T], limiter: CapacityLimiter, stopping: asyncio.Event) -> T:
    """Return what a function returns that all visitors need, and whose time depends only on the cluster."""

    def computed() -> T:
        with time_limit(inf, is_stopped=stopping.is_set):
            return compute()

    return await to_thread.run_sync(computed, limiter=limiter, abandon_on_cancel=True)


def _busy() -> Exception:
    return rejected(503, "busy", "The server is busy", "too many questions wait for an answer", "try again later")
