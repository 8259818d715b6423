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

#: Characters of a text that is still kept.
_SHORT: Final = 2048


def remembered(most: int) -> Callable[[Callable[[str, *More], T]], Callable[[str, *More], T]]:
    """Keep the last ``most`` results of a pure function of a text (and little else), unless the text is long."""

    def keeping(read: Callable[[str, *More], T]) -> Callable[[str, *More], T]:
        kept = cast("Callable[[str, *More], T]", lru_cache(most)(read))

        def found(text: str, *more: *More) -> T:
            return kept(text, *more) if len(text) <= _SHORT else read(text, *more)

        update_wrapper(found, read)
        return found

    return keeping
