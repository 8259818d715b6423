"""Polling for a condition; the error at the timeout contains the actual state.

The timeouts are long enough for loaded machines: they are not measurements. The longer a condition takes, the longer
the pauses: polling a server hundreds of times a second takes the processor from what is waited for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from inspect import isawaitable
from typing import Any, TypeAlias

StateText: TypeAlias = Callable[[], Any] | str

#: By how much each pause is longer than the one before.
_GROWTH = 1.1


async def until(true: Callable[[], Any], state: StateText = "", seconds: float = 120.0, every: float = 0.002) -> Any:
    """The value of ``true`` once it is true; both functions may be coroutine functions.

    ``every``: the seconds between two calls, at first; on a simulated clock, short ones cost much and save no time.
    """
    try:
        async with asyncio.timeout(seconds):
            while not (found := await _of(true)):
                await asyncio.sleep(every)
                every = max(every, min(every * _GROWTH, 0.02))
            return found
    except TimeoutError:
        raise AssertionError(f"condition not met: {await _of(state) if callable(state) else state}") from None


def wait_until(true: Callable[[], Any], state: StateText = "", seconds: float = 120.0) -> Any:
    """The same without coroutines."""
    end, pause = time.monotonic() + seconds, 0.01
    while not (found := true()):
        assert time.monotonic() < end, f"condition not met: {state() if callable(state) else state}"
        time.sleep(pause)
        pause = min(pause * _GROWTH, 0.1)
    return found


async def _of(function: Callable[[], Any]) -> Any:
    found = function()
    return await found if isawaitable(found) else found
