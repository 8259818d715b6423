"""Keeping what was read out of the texts that clients send: the same few come again and again.

Long texts are read anew each time. They do not come again, and a cache that counts entries would keep as much of them
as any client, even one that may do nothing, cares to send.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, update_wrapper
from typing import Final, TypeVar, TypeVarTuple, cast

T = TypeVar("T")
More = TypeVarTuple("More")

#: Characters of a text that is still cached.
_MAX_LENGTH: Final = 2048


def memoized(maxsize: int) -> Callable[[Callable[[str, *More], T]], Callable[[str, *More], T]]:
    """Keep the last ``maxsize`` results of a pure function of a text (and little else), unless the text is long."""

    def decorate(read: Callable[[str, *More], T]) -> Callable[[str, *More], T]:
        cached = cast("Callable[[str, *More], T]", lru_cache(maxsize)(read))

        def call(text: str, *more: *More) -> T:
            return cached(text, *more) if len(text) <= _MAX_LENGTH else read(text, *more)

        update_wrapper(call, read)
        return call

    return decorate
