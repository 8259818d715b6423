"""Decodes JSON with the error messages of Go's encoding/json.

msgspec decodes; only if it fails, a scanner like Go's finds the first unexpected byte and describes it.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

_SPACE: Final = b" \t\r\n"
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?")
_WHOLE_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_STRING: Final = re.compile(rb'[^"\\\x00-\x1f]*')
_DEPTH: Final = 10_000
END: Final = "unexpected end of JSON input"


def decode(body: bytes) -> Any:
    """Decode JSON; raises ValueError with Go's message. Invalid UTF-8 becomes U+FFFD, as in Go."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        problem = syntax_error(body)
        if problem:
            raise ValueError(problem) from None
        try:
            return msgspec.json.decode(_LONE_SURROGATE.sub(r"\\ufffd", body.decode(errors="replace")).encode())
        except (msgspec.DecodeError, RecursionError):
            raise ValueError("exceeded max depth" if isinstance(error, RecursionError) else str(error)) from None


_LONE_SURROGATE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F].."
)


class _ScanError(Exception):
    """Raised at the first unexpected byte."""


def syntax_error(body: bytes) -> str:
    """Go's message for the syntax error in ``body``; empty if it is valid."""
    try:
        end = _skip_space(body, _value(body, _skip_space(body, 0)))
        if end < len(body):
            _fail(body, end, "after top-level value")
    except _ScanError as error:
        return str(error)
    return ""


def _fail(body: bytes, offset: int, context: str) -> None:
    raise _ScanError(END if offset >= len(body) else f"invalid character {_quoted(body[offset])} {context}")


def _quoted(byte: int) -> str:
    """A byte as ``quoteChar`` formats it, taken as a code point."""
    if byte == 0x27:
        return r"'\''"
    if byte == 0x22:
        return "'\"'"
    character = chr(byte)
    escapes = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
    if character in escapes:
        return f"'{escapes[character]}'"
    return f"'{character}'" if character.isprintable() else f"'\\x{byte:02x}'" if byte < 0x80 else f"'\\u{byte:04x}'"


def _skip_space(body: bytes, offset: int) -> int:
    while offset < len(body) and body[offset] in _SPACE:
        offset += 1
    return offset


def _value(body: bytes, offset: int) -> int:
    """The end of the value at ``offset``. Uses an explicit stack, so that deep nesting causes no RecursionError."""
    closing: list[int] = []
    while True:
        offset, opened = _value_start(body, offset)
        if opened:
            closing.append(opened)
            if len(closing) > _DEPTH:
                raise _ScanError("exceeded max depth")
            offset = _skip_space(body, offset)
            if offset < len(body) and body[offset] == opened:
                closing.pop()
                offset += 1
            else:
                offset = _skip_space(body, _key(body, offset) if opened == 0x7D else offset)
                continue
        while True:
            if not closing:
                return offset
            offset = _skip_space(body, offset)
            if offset < len(body) and body[offset] == closing[-1]:
                closing.pop()
                offset += 1
                continue
            if offset >= len(body) or body[offset] != 0x2C:
                _fail(body, offset, "after object key:value pair" if closing[-1] == 0x7D else "after array element")
            offset = _skip_space(body, offset + 1)
            if closing[-1] == 0x7D:
                offset = _skip_space(body, _key(body, offset))
            break


def _key(body: bytes, offset: int) -> int:
    if offset >= len(body) or body[offset] != 0x22:
        _fail(body, offset, "looking for beginning of object key string")
    offset = _skip_space(body, _string(body, offset + 1))
    if offset >= len(body) or body[offset] != 0x3A:
        _fail(body, offset, "after object key")
    return offset + 1


def _value_start(body: bytes, offset: int) -> tuple[int, int]:
    """The end of a scalar or of an opening bracket, and the closing byte of a container (0 for scalars)."""
    if offset >= len(body):
        raise _ScanError(END)
    byte = body[offset]
    if byte in b"{[":
        return offset + 1, byte + 2
    if byte == 0x22:
        return _string(body, offset + 1), 0
    if byte in b"-0123456789":
        return _number(body, offset), 0
    for literal in (b"true", b"false", b"null"):
        if byte == literal[0]:
            for index, expected in enumerate(literal[1:], 1):
                if offset + index >= len(body) or body[offset + index] != expected:
                    _fail(body, offset + index, f"in literal {literal.decode()} (expecting {_quoted(expected)})")
            return offset + len(literal), 0
    _fail(body, offset, "looking for beginning of value")
    raise AssertionError("the scanner has stopped")


def _string(body: bytes, offset: int) -> int:
    while True:
        match = _STRING.match(body, offset)
        assert match is not None, "the pattern matches the empty text"
        offset = match.end()
        if offset >= len(body):
            raise _ScanError(END)
        if body[offset] == 0x22:
            return offset + 1
        if body[offset] != 0x5C:
            _fail(body, offset, "in string literal")
        offset += 1
        if offset >= len(body) or body[offset] not in b'"\\/bfnrtu':
            _fail(body, offset, "in string escape code")
        if body[offset] == 0x75:
            for index in range(1, 5):
                if offset + index >= len(body) or body[offset + index] not in b"0123456789abcdefABCDEF":
                    _fail(body, offset + index, "in \\u hexadecimal character escape")
            offset += 4
        offset += 1


def _number(body: bytes, offset: int) -> int:
    match = _NUMBER.match(body, offset)
    assert match is not None, "the pattern matches the empty text"
    text = match[0]
    if _WHOLE_NUMBER.fullmatch(text):
        return match.end()
    end = match.end()
    last = text[-1:]
    if last == b"-":
        where = "in numeric literal"
    elif last == b".":
        where = "after decimal point in numeric literal"
    else:
        where = "in exponent of numeric literal"
    _fail(body, end, where)
    return end
