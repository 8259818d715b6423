"""Types that threads may decode at the same time."""

from __future__ import annotations

from threading import Lock
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")

_LOCK: Final = Lock()
_DECODABLE: Final[set[Any]] = set()


def decodable(type: type[T]) -> type[T]:
    """Return the type, which threads can then pass to msgspec at the same time.

    msgspec (0.22) prepares a struct, and the structs of its fields, when it is decoded for the first time. Another
    thread that decodes one of them meanwhile uses the half of it that exists: a segmentation fault.
    """
    if type not in _DECODABLE:
        with _LOCK:
            msgspec.json.Decoder(type)
            _DECODABLE.add(type)
    return type
