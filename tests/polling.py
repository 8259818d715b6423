"""Polling for a condition; the error at the timeout contains the actual state.

The timeouts are long enough for loaded machines: they are not measurements.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from inspect import isawaitable
from typing import Any, TypeAlias

StateText: TypeAlias = Callable[[], Any] | str


async def until(true: Callable[[], Any], state: StateText = "", seconds: float = 120.0, every: float = 0.002) -> Any:
    """The value of ``true`` once it is true; both functions may be coroutine functions.

    ``every``: the seconds between two calls; on a simulated clock, short ones cost much and save no time.
    """
    try:
        async with asyncio.timeout(seconds):
            while not (found := await _of(true)):
                await asyncio.sleep(every)
            return found
    except TimeoutError:
        raise AssertionError(f"condition not met: {await _of(state) if callable(state) else state}") from None


def wait_until(true: Callable[[], Any], state: StateText = "", seconds: float = 120.0) -> Any:
    """The same without coroutines."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, f"condition not met: {state() if callable(state) else state}"
        time.sleep(0.01)
    return found


async def _of(function: Callable[[], Any]) -> Any:
    found = function()
    return await found if isawaitable(found) else found
