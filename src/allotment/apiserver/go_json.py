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


def _fail(body: bytes, at: int, where: str) -> None:
    raise _ScanError(END if at >= len(body) else f"invalid character {_quoted(body[at])} {where}")


def _quoted(byte: int) -> str:
    """A byte as ``quoteChar`` formats it, taken as a code point."""
    if byte == 0x27:
        return r"'\''"
    if byte == 0x22:
        return "'\"'"
    character = chr(byte)
    known = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
    if character in known:
        return f"'{known[character]}'"
    return f"'{character}'" if character.isprintable() else f"'\\x{byte:02x}'" if byte < 0x80 else f"'\\u{byte:04x}'"


def _skip_space(body: bytes, at: int) -> int:
    while at < len(body) and body[at] in _SPACE:
        at += 1
    return at


def _value(body: bytes, at: int) -> int:
    """The end of the value at ``at``. Uses an explicit stack, so deep nesting causes an error, not a RecursionError."""
    closing: list[int] = []
    while True:
        at, opened = _value_start(body, at)
        if opened:
            closing.append(opened)
            if len(closing) > _DEPTH:
                raise _ScanError("exceeded max depth")
            at = _skip_space(body, at)
            if at < len(body) and body[at] == opened:
                closing.pop()
                at += 1
            else:
                at = _skip_space(body, _key(body, at) if opened == 0x7D else at)
                continue
        while True:
            if not closing:
                return at
            at = _skip_space(body, at)
            if at < len(body) and body[at] == closing[-1]:
                closing.pop()
                at += 1
                continue
            if at >= len(body) or body[at] != 0x2C:
                _fail(body, at, "after object key:value pair" if closing[-1] == 0x7D else "after array element")
            at = _skip_space(body, at + 1)
            if closing[-1] == 0x7D:
                at = _skip_space(body, _key(body, at))
            break


def _key(body: bytes, at: int) -> int:
    if at >= len(body) or body[at] != 0x22:
        _fail(body, at, "looking for beginning of object key string")
    at = _skip_space(body, _string(body, at + 1))
    if at >= len(body) or body[at] != 0x3A:
        _fail(body, at, "after object key")
    return at + 1


def _value_start(body: bytes, at: int) -> tuple[int, int]:
    """The end of a scalar or of an opening bracket, and the closing byte of a container (0 for scalars)."""
    if at >= len(body):
        raise _ScanError(END)
    byte = body[at]
    if byte in b"{[":
        return at + 1, byte + 2
    if byte == 0x22:
        return _string(body, at + 1), 0
    if byte in b"-0123456789":
        return _number(body, at), 0
    for literal in (b"true", b"false", b"null"):
        if byte == literal[0]:
            for index, wanted in enumerate(literal[1:], 1):
                if at + index >= len(body) or body[at + index] != wanted:
                    _fail(body, at + index, f"in literal {literal.decode()} (expecting {_quoted(wanted)})")
            return at + len(literal), 0
    _fail(body, at, "looking for beginning of value")
    raise AssertionError("the scanner has stopped")


def _string(body: bytes, at: int) -> int:
    while True:
        match = _STRING.match(body, at)
        assert match is not None, "the pattern matches the empty text"
        at = match.end()
        if at >= len(body):
            raise _ScanError(END)
        if body[at] == 0x22:
            return at + 1
        if body[at] != 0x5C:
            _fail(body, at, "in string literal")
        at += 1
        if at >= len(body) or body[at] not in b'"\\/bfnrtu':
            _fail(body, at, "in string escape code")
        if body[at] == 0x75:
            for index in range(1, 5):
                if at + index >= len(body) or body[at + index] not in b"0123456789abcdefABCDEF":
                    _fail(body, at + index, "in \\u hexadecimal character escape")
            at += 4
        at += 1


def _number(body: bytes, at: int) -> int:
    match = _NUMBER.match(body, at)
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
