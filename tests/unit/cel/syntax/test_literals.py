"""Literal values: ranges, escapes, line ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.syntax import literals
from allotment.cel.syntax.lexer import tokenize
from allotment.cel.syntax.literals import LiteralError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775807", 2**63 - 1),
        ("0xff", 255),
        ("-0x10", -16),
        ("007", 7),
        ("0" * 5000 + "1", 1),
    ],
)
def test_int_values(text: str, value: int) -> None:
    assert literals.int_value(text) == value


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "0x8000000000000000", "9" * 6000])
def test_ints_out_of_range(text: str) -> None:
    with pytest.raises(LiteralError, match="invalid int literal"):
        literals.int_value(text)


def test_uints_have_64_bits() -> None:
    assert literals.uint_value("18446744073709551615u") == 2**64 - 1
    assert literals.uint_value("0xFFu") == 255
    with pytest.raises(LiteralError, match="invalid uint literal"):
        literals.uint_value("18446744073709551616U")


def test_doubles_overflow_but_do_not_underflow() -> None:
    assert literals.double_value("-1e-400") == 0
    with pytest.raises(LiteralError, match="invalid double literal"):
        literals.double_value("1e400")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\a\b\f\n\r\t\v\\\?\"\'\`"', "\a\b\f\n\r\t\v\\?\"'`"),
        (r"'\x41\X42\103'", "ABC"),
        (r"'\xff'", "ÿ"),
        (r"'\u00e9\U0001F600'", "é😀"),
        (r"r'\n'", r"\n"),
        ("'''a\r\nb\rc'''", "a\nb\nc"),
        ('"""a"b"""', 'a"b'),
        ('""', ""),
    ],
)
def test_string_values(text: str, value: str) -> None:
    assert literals.string_value(text) == value


@pytest.mark.parametrize("text", [r"'\ud800'", r"'\U00110000'", r"'\uDFFF'"])
def test_invalid_code_points(text: str) -> None:
    with pytest.raises(LiteralError, match="invalid unicode code point"):
        literals.string_value(text)


@pytest.mark.parametrize(
    ("text", "value"), [(r"b'\xff\377é'", b"\xff\xff\xc3\xa9"), (r"B'a\n'", b"a\n"), (r"br'\x'", rb"\x"), ("b''", b"")]
)
def test_bytes_values(text: str, value: bytes) -> None:
    assert literals.bytes_value(text) == value


@pytest.mark.parametrize("text", [r"b'\u0041'", r"b'\U00000041'"])
def test_bytes_have_no_unicode_escapes(text: str) -> None:
    with pytest.raises(LiteralError, match="unable to unescape string"):
        literals.bytes_value(text)


@given(st.text())
def test_quoted_texts_round_trip(text: str) -> None:
    """Escapes the characters that a single-quoted literal cannot contain."""
    quoted = "'" + text.replace("\\", r"\\").replace("'", r"\'").replace("\n", r"\n").replace("\r", r"\r") + "'"
    (token, _) = tokenize(quoted)
    assert literals.string_value(token.text) == text
