"""A work queue of keys: requests for a key are merged, keys run concurrently, failures are retried.

A key that is added while it is running runs again afterwards, never twice at the same time. Failed keys are retried
with exponential backoff. No task runs while the queue is empty.

Between two keys a worker yields to the event loop. Work that waits for nothing and requests itself or another key again
therefore costs processor time, but never blocks the other tasks of the process: a lab is one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from math import inf
from random import Random
from typing import Final, Generic, TypeVar

from allotment.cluster.backoff import Backoff
from allotment.cluster.clock import Clock, Timer
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.shutdown import NEVER, Shutdown

K = TypeVar("K", bound=Hashable)

log = logging.getLogger(__name__)

#: 404, 409: another client was faster. 406: the kind is served in unknown versions only, which the client has logged.
#: 403: a quota is exhausted, which the object's events report.
_LEVELS: Final = {404: logging.DEBUG, 409: logging.DEBUG, 406: logging.DEBUG, 403: logging.INFO}
#: An unreachable or overloaded cluster affects all keys; it is logged for one key in this interval.
_LOG_SECONDS: Final = 10.0


class WorkQueue(Generic[K]):
    """``work(key)`` returns None when the key is done, or the seconds until it must run again."""

    def __init__(
        self, name: str, work: Callable[[K], Awaitable[float | None]], *, clock: Clock, random: Random,
        workers: int = 16, first_wait: float = 0.005, longest_wait: float = 60.0,
    ) -> None:  # fmt: skip
        self.name = name
        self._work = work
        self._clock = clock
        self._random = random
        self._workers = workers
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._ready: deque[K] = deque()
        self._waiting: set[K] = set()  # the keys in _ready
        self._running: set[K] = set()
        self._again: set[K] = set()  # added while running
        self._timers: dict[K, tuple[float, Timer]] = {}
        self._failures: dict[K, Backoff] = {}
        self._active = 0
        self._group: asyncio.TaskGroup | None = None
        self._stopping = NEVER
        self._outage_logged = -inf

    def __len__(self) -> int:
        """Keys ready or being worked on."""
        return len(self._ready) + len(self._running)

    def add(self, key: K, after: float = 0.0) -> None:
        """Add a key, now or after some seconds; of several later times the earliest counts."""
        if after > 0:
            self._add_later(key, after)
        elif key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.append(key)
            self._start_worker()

    def cancel(self, key: K) -> None:
        """Cancel the delayed run of a key."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer[1].cancel()

    def _add_later(self, key: K, after: float) -> None:
        due = self._clock.seconds() + after
        timer = self._timers.get(key)
        if timer is not None:
            if timer[0] <= due:
                return
            timer[1].cancel()

        def ring() -> None:
            self._timers.pop(key, None)
            self.add(key)

        self._timers[key] = due, self._clock.later(after, ring)

    async def run(self, stopping: Shutdown = NEVER) -> None:
        """Run until shutdown; then finish the keys in progress."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._stopping = stopping
            try:
                self._start_worker()
                await stopping.wait()
            finally:
                self._group = None
                for _, timer in self._timers.values():
                    timer.cancel()
                self._timers.clear()

    def _start_worker(self) -> None:
        if self._group is not None and self._active < self._workers and self._ready:
            self._active += 1
            self._group.create_task(self._worker(), name=self.name)

    async def _worker(self) -> None:
        try:
            while self._ready and not self._stopping.started:
                key = self._ready.popleft()
                self._waiting.discard(key)
                self._running.add(key)
                # Another worker takes the next key if this one has to wait for the cluster.
                self._start_worker()
                try:
                    await self._run_key(key)
                finally:
                    self._running.discard(key)
                    if key in self._again:
                        self._again.discard(key)
                        self.add(key)
                if self._ready:
                    await asyncio.sleep(0)
        finally:
            self._active -= 1

    async def _run_key(self, key: K) -> None:
        try:
            after = await self._work(key)
        except StatusError as error:
            level = _LEVELS.get(error.code, logging.WARNING)
            overloaded = error.code == 429 or error.code >= 500
            self._failed(key, self._once(level) if overloaded else level, error)
        except Unreachable as error:
            self._failed(key, self._once(logging.INFO), error)
        except Exception as error:
            if key not in self._failures:  # the traceback is logged once
                log.exception("%s: %s failed", self.name, key)
            self._failed(key, logging.WARNING, error)
        else:
            self._failures.pop(key, None)
            if after is not None:
                self.add(key, max(after, 0.001))

    def _once(self, level: int) -> int:
        now = self._clock.seconds()
        if now - self._outage_logged < _LOG_SECONDS:
            return logging.DEBUG
        self._outage_logged = now
        return level

    def _failed(self, key: K, level: int, error: Exception) -> None:
        backoff = self._failures.get(key)
        if backoff is None:
            backoff = self._failures[key] = Backoff(self._random, first=self._first_wait, longest=self._longest_wait)
        wait = backoff.next()
        log.log(level, "%s: %s: %s (retry in %.3f s)", self.name, key, str(error) or type(error).__name__, wait)
        self._add_later(key, wait)
