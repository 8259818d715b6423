"""Limits of the time that an answer may take, which its own loops check: a thread cannot be ended from outside.

Servers answer what others send, in a few threads. They set a limit for each answer; commands have none, and then no
clock is read. The loops that take long for a large input call `check_time`: for each value of a text, each rule and
finding, each pod, each trial of a placement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from time import monotonic
from typing import Final, NamedTuple


class TookTooLongError(Exception):
    """Raised by `check_time`. ``seconds``: the limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:g} seconds")
        self.seconds = seconds


class StoppedError(Exception):
    """Raised by `check_time` if the answer is not needed any more: the server ends."""


class _TimeLimit(NamedTuple):
    seconds: float
    end: float
    clock: Callable[[], float]
    is_stopped: Callable[[], bool]


_LIMIT: Final[ContextVar[_TimeLimit | None]] = ContextVar("time limit", default=None)


@contextmanager
def time_limit(
    seconds: float, clock: Callable[[], float] = monotonic, is_stopped: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Limit what this thread or task computes inside of the ``with`` statement.

    ``clock``: returns the time in seconds. ``is_stopped``: whether to end before.

    >>> seconds = iter(range(9))
    >>> with time_limit(2, lambda: next(seconds)):
    ...     check_time()
    ...     check_time()
    ...     check_time()
    Traceback (most recent call last):
    allotment.time_limits.TookTooLongError: no answer within 2 seconds
    """
    previous = _LIMIT.set(_TimeLimit(seconds, clock() + seconds, clock, is_stopped))
    try:
        yield
    finally:
        _LIMIT.reset(previous)


@contextmanager
def without_time_limit() -> Iterator[None]:
    """Compute a value without limit that several answers share: it would never be complete if each of them gave up."""
    limit = _LIMIT.get()
    previous = _LIMIT.set(limit and limit._replace(end=inf))
    try:
        yield
    finally:
        _LIMIT.reset(previous)


def check_time() -> None:
    """Raise TookTooLongError or StoppedError if this thread must end. Takes 50 ns without a limit."""
    limit = _LIMIT.get()
    if limit is not None:
        if limit.is_stopped():
            raise StoppedError
        if limit.clock() > limit.end:
            raise TookTooLongError(limit.seconds)
