"""Values of literal tokens: numbers and their ranges, quoted strings and bytes and their escape sequences."""

from __future__ import annotations

import re

_INT_MIN = -(2**63)
_INT_MAX = 2**63 - 1
_UINT_MAX = 2**64 - 1

# fmt: off
_SIMPLE_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"',
    "`": "`", "?": "?",
}
# fmt: on

_ESCAPE = re.compile(r"\\(?:([xX])(..)|u(.{4})|U(.{8})|([0-3]..)|(.))", re.DOTALL)


class LiteralError(ValueError):
    """Raised for a literal token without a valid value; the text is upstream's."""


def int_value(text: str) -> int:
    """The value of an ``INT`` token with an optional sign.

    >>> int_value("-0x10")
    -16
    """
    digits = text.removeprefix("-")
    # Longer digit strings are out of range, and Python refuses to convert very long ones.
    value = _digits(digits, 20)
    if value is not None and text.startswith("-"):
        value = -value
    if value is None or not _INT_MIN <= value <= _INT_MAX:
        raise LiteralError("invalid int literal")
    return value


def uint_value(text: str) -> int:
    """The value of a ``UINT`` token with its suffix."""
    value = _digits(text[:-1], 21)
    if value is None or value > _UINT_MAX:
        raise LiteralError("invalid uint literal")
    return value


def _digits(text: str, max_digits: int) -> int | None:
    base = 10
    if text.startswith("0x"):
        base, text = 16, text[2:]
    text = text.lstrip("0")
    if len(text) > max_digits:
        return None
    return int(text, base) if text else 0


def double_value(text: str) -> float:
    """The value of a ``FLOAT`` token with an optional sign. Overflow is an error, underflow gives zero."""
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise LiteralError("invalid double literal")
    return value


def _unquoted(text: str) -> tuple[str, bool]:
    """The text between the quotes with normalized line ends, and whether the literal is raw."""
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    width = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    return text[width:-width], raw


def string_value(text: str) -> str:
    r"""The value of a ``STRING`` token.

    >>> string_value(r"'caf\u00e9'")
    'café'
    """
    body, raw = _unquoted(text)
    if raw or "\\" not in body:
        return body
    return _ESCAPE.sub(_unescape_char, body)


def _unescape_char(found: re.Match[str]) -> str:
    _, hex2, hex4, hex8, octal, simple = found.groups()
    if simple is not None:
        return _SIMPLE_ESCAPES[simple]
    code = int(octal, 8) if octal else int(hex2 or hex4 or hex8, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise LiteralError("invalid unicode code point")
    return chr(code)


def bytes_value(text: str) -> bytes:
    r"""The value of a ``BYTES`` token with its prefix: characters as UTF-8, ``\x`` and octal escapes as single bytes.

    >>> bytes_value(r"b'\xffé'")
    b'\xff\xc3\xa9'
    """
    body, raw = _unquoted(text[1:])
    if raw or "\\" not in body:
        return _utf8(body)
    parts: list[bytes] = []
    at = 0
    for found in _ESCAPE.finditer(body):
        parts.append(_utf8(body[at : found.start()]))
        parts.append(_unescape_byte(found))
        at = found.end()
    parts.append(_utf8(body[at:]))
    return b"".join(parts)


def _unescape_byte(found: re.Match[str]) -> bytes:
    _, hex2, hex4, hex8, octal, simple = found.groups()
    if simple is not None:
        return _SIMPLE_ESCAPES[simple].encode()
    if hex4 or hex8:
        raise LiteralError("unable to unescape string")
    return bytes([int(octal, 8) if octal else int(hex2, 16)])


def _utf8(text: str) -> bytes:
    # External text can contain lone surrogates, which UTF-8 cannot encode.
    return text.encode("utf-8", "replace")
