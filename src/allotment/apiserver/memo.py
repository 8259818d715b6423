"""A memoizing decorator for parsers of text that clients send.

Long texts are not cached: they rarely repeat, and a cache limited by entries would let any client, even an
unauthorized one, fill the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, update_wrapper
from typing import Final, TypeVar, TypeVarTuple, cast

T = TypeVar("T")
More = TypeVarTuple("More")

#: Maximum length of a cached text in characters.
_MAX_LENGTH: Final = 2048


def memoized(maxsize: int) -> Callable[[Callable[[str, *More], T]], Callable[[str, *More], T]]:
    """Cache the last ``maxsize`` results of a pure function whose first argument is a text, unless it is long."""

    def decorate(read: Callable[[str, *More], T]) -> Callable[[str, *More], T]:
        cached = cast("Callable[[str, *More], T]", lru_cache(maxsize)(read))

        def call(text: str, *more: *More) -> T:
            return cached(text, *more) if len(text) <= _MAX_LENGTH else read(text, *more)

        update_wrapper(call, read)
        return call

    return decorate
