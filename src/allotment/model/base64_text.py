"""Where a text stops being base64, as Go counts: bytes in JSON are base64, and the refusal names a byte."""

from __future__ import annotations

import binascii
from typing import Final

_DIGITS: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_BREAKS: Final = b"\r\n"
_PADDING: Final = ord("=")


def is_base64(text: str) -> bool:
    """Whether a text is base64 without line breaks; quick, however large it is."""
    try:
        binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        return False
    return len(text) % 4 == 0


def base64_error_offset(data: bytes) -> int | None:
    """The first byte that cannot be; ``None`` where all is well. Line breaks do not matter.

    >>> base64_fault(b"aGVsbG8="), base64_fault(b"aGVs!"), base64_fault(b"aGVsbG8"), base64_fault(b"aGVsbG8=x")
    (None, 4, 4, 8)
    """
    at = digits = 0
    while at < len(data):
        byte = data[at]
        at += 1
        if byte in _DIGITS:
            digits = (digits + 1) % 4
        elif byte == _PADDING:
            return _after_padding(data, at, digits)
        elif byte not in _BREAKS:
            return at - 1
    return at - digits if digits else None  # a group that is not whole begins so many bytes before the end


def _after_padding(data: bytes, at: int, digits: int) -> int | None:
    """What follows the first ``=``: another one after two digits, and then nothing."""
    if digits < 2:
        return at - 1
    if digits == 2:
        at = _past_breaks(data, at)
        if at == len(data):
            return at
        if data[at] != _PADDING:
            return at - 1
        at += 1
    at = _past_breaks(data, at)
    return at if at < len(data) else None


def _past_breaks(data: bytes, at: int) -> int:
    while at < len(data) and data[at] in _BREAKS:
        at += 1
    return at
