"""Quotes strings as Go's ``%q``, which most of Kubernetes' error messages use."""

from __future__ import annotations

import re
from typing import Final

_PLAIN: Final = re.compile(r"[ !#-\[\]-~]*", re.ASCII)
_ESCAPES: Final = {
    "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\", '"': r"\"",
}  # fmt: skip


def quote(text: str) -> str:
    """``text`` in double quotes with Go's escapes.

    >>> print(quote('tab\\t "é"'))
    "tab\\t \\"é\\""
    """
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    escape = _ESCAPES.get(character)
    if escape is not None:
        return escape
    code = ord(character)
    # Go and Python agree on printable characters; the only printable space is U+0020.
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:
        # A byte that is not valid UTF-8, as Python's surrogate escape.
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
