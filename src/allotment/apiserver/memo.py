"""A memoizing decorator for parsers of text that clients send.

Long texts are not cached: they rarely repeat, and a cache limited by entries would let any client, even an
unauthorized one, fill the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, update_wrapper
from typing import Final, TypeVar, TypeVarTuple, cast

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

#: Maximum length of a cached text in characters.
_MAX_LENGTH: Final = 2048


def memoized(maxsize: int) -> Callable[[Callable[[str, *Arguments], T]], Callable[[str, *Arguments], T]]:
    """Cache the last ``maxsize`` results of a pure function whose first argument is a text, unless it is long."""

    def decorate(read: Callable[[str, *Arguments], T]) -> Callable[[str, *Arguments], T]:
        cached = cast("Callable[[str, *Arguments], T]", lru_cache(maxsize)(read))

        def call(text: str, *arguments: *Arguments) -> T:
            return cached(text, *arguments) if len(text) <= _MAX_LENGTH else read(text, *arguments)

        update_wrapper(call, read)
        return call

    return decorate
