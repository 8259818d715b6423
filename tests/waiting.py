"""Waiting for something that nobody tells, and saying what there was instead when it never came.

The time is for machines that have much to do: nothing is concluded from it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from inspect import isawaitable
from typing import Any, TypeAlias

Told: TypeAlias = Callable[[], Any] | str


async def until(true: Callable[[], Any], told: Told = "", seconds: float = 120.0) -> Any:
    """What ``true`` returns once it is true; either function may be one that is awaited."""
    try:
        async with asyncio.timeout(seconds):
            while not (found := await _of(true)):
                await asyncio.sleep(0.002)
            return found
    except TimeoutError:
        raise AssertionError(f"did not come true: {await _of(told) if callable(told) else told}") from None


def wait_until(true: Callable[[], Any], told: Told = "", seconds: float = 120.0) -> Any:
    """The same where nothing is awaited."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, f"did not come true: {told() if callable(told) else told}"
        time.sleep(0.01)
    return found


async def _of(function: Callable[[], Any]) -> Any:
    found = function()
    return await found if isawaitable(found) else found
