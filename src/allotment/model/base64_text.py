"""Checks base64 text as Go does: bytes in JSON are base64, and the API server's error names the offset of a byte."""

from __future__ import annotations

import binascii
from typing import Final

_DIGITS: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_BREAKS: Final = b"\r\n"
_PADDING: Final = ord("=")


def is_base64(text: str) -> bool:
    """Whether a text is base64 without line breaks. Fast for large texts."""
    return text.isascii() and _is_unbroken(text.encode())


def _is_unbroken(data: bytes) -> bool:
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except binascii.Error:
        return False
    return len(data) % 4 == 0


def base64_error_offset(data: bytes) -> int | None:
    """The offset of the first illegal byte, or None if there is none. Line breaks are ignored.

    >>> base64_error_offset(b"aGVsbG8="), base64_error_offset(b"aGVs!"), base64_error_offset(b"aGVsbG8")
    (None, 4, 4)
    >>> base64_error_offset(b"aGVsbG8=x")
    8
    """
    if _is_unbroken(data):  # the loop takes a second for a megabyte
        return None
    offset = digits = 0
    while offset < len(data):
        byte = data[offset]
        offset += 1
        if byte in _DIGITS:
            digits = (digits + 1) % 4
        elif byte == _PADDING:
            return _padding_error_offset(data, offset, digits)
        elif byte not in _BREAKS:
            return offset - 1
    return offset - digits if digits else None  # the start of an incomplete group


def _padding_error_offset(data: bytes, offset: int, digits: int) -> int | None:
    """The first illegal byte after the first ``=``: a second ``=`` must follow two digits, and nothing else."""
    if digits < 2:
        return offset - 1
    if digits == 2:
        offset = _skip_line_breaks(data, offset)
        if offset == len(data):
            return offset
        if data[offset] != _PADDING:
            return offset - 1
        offset += 1
    offset = _skip_line_breaks(data, offset)
    return offset if offset < len(data) else None


def _skip_line_breaks(data: bytes, offset: int) -> int:
    while offset < len(data) and data[offset] in _BREAKS:
        offset += 1
    return offset
