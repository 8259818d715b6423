"""Checks base64 text as Go does: bytes in JSON are base64, and the API server's error names the offset of a byte."""

from __future__ import annotations

import binascii
import re
from typing import Final

_DIGITS_AND_BREAKS: Final = re.compile(rb"[A-Za-z0-9+/\r\n]*")
_BREAKS: Final = b"\r\n"
_PADDING: Final = ord("=")


def is_base64(text: str) -> bool:
    """Whether a text is base64 without line breaks. Fast for large texts."""
    try:
        binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        return False
    return len(text) % 4 == 0 and not text.endswith("===")  # Python ignores padding after a complete group


def base64_error_offset(data: bytes) -> int | None:
    """The offset of the first illegal byte, or None if there is none. Line breaks are ignored.

    >>> base64_error_offset(b"aGVsbG8="), base64_error_offset(b"aGVs!"), base64_error_offset(b"aGVsbG8")
    (None, 4, 4)
    >>> base64_error_offset(b"aGVsbG8=x")
    8
    """
    found = _DIGITS_AND_BREAKS.match(data)
    assert found is not None, "the pattern matches empty data"
    end = found.end()
    digits = (end - sum(data.count(each, 0, end) for each in _BREAKS)) % 4
    if end == len(data):
        return end - digits if digits else None  # the start of an incomplete group
    return _padding_error_offset(data, end + 1, digits) if data[end] == _PADDING else end


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
