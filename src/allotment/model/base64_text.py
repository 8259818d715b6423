"""Checks base64 text as Go does: bytes in JSON are base64, and the API server's error names the offset of a byte."""

from __future__ import annotations

import binascii
from typing import Final

_DIGITS: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_BREAKS: Final = b"\r\n"
_PADDING: Final = ord("=")


def is_base64(text: str) -> bool:
    """Whether a text is base64 without line breaks. Fast for large texts."""
    try:
        binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        return False
    return len(text) % 4 == 0


def base64_error_offset(data: bytes) -> int | None:
    """The offset of the first illegal byte, or None if there is none. Line breaks are ignored.

    >>> base64_error_offset(b"aGVsbG8="), base64_error_offset(b"aGVs!"), base64_error_offset(b"aGVsbG8")
    (None, 4, 4)
    >>> base64_error_offset(b"aGVsbG8=x")
    8
    """
    at = digits = 0
    while at < len(data):
        byte = data[at]
        at += 1
        if byte in _DIGITS:
            digits = (digits + 1) % 4
        elif byte == _PADDING:
            return _padding_error_offset(data, at, digits)
        elif byte not in _BREAKS:
            return at - 1
    return at - digits if digits else None  # the start of an incomplete group


def _padding_error_offset(data: bytes, at: int, digits: int) -> int | None:
    """The first illegal byte after the first ``=``: a second ``=`` must follow two digits, and nothing else."""
    if digits < 2:
        return at - 1
    if digits == 2:
        at = _skip_line_breaks(data, at)
        if at == len(data):
            return at
        if data[at] != _PADDING:
            return at - 1
        at += 1
    at = _skip_line_breaks(data, at)
    return at if at < len(data) else None


def _skip_line_breaks(data: bytes, at: int) -> int:
    while at < len(data) and data[at] in _BREAKS:
        at += 1
    return at
