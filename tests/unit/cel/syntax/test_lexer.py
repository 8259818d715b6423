"""Tokens: the longest match wins, an invalid one ends the list at upstream's error position."""

from __future__ import annotations

import pytest

from allotment.cel.syntax.lexer import EOF, ERROR, tokenize


def kinds(source: str) -> list[tuple[str, str]]:
    return [(t.kind, t.text) for t in tokenize(source)[:-1]]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("1.5e3", [("FLOAT", "1.5e3")]),
        (".5", [("FLOAT", ".5")]),
        ("1e5", [("FLOAT", "1e5")]),
        ("0x1Fu", [("UINT", "0x1Fu")]),
        ("0X1f", [("INT", "0"), ("IDENT", "X1f")]),
        ("1u", [("UINT", "1u")]),
        ("a.b", [("IDENT", "a"), (".", "."), ("IDENT", "b")]),
        ("a.5", [("IDENT", "a"), ("FLOAT", ".5")]),
        ("trueish in", [("IDENT", "trueish"), ("in", "in")]),
        ("'''a'b'''", [("STRING", "'''a'b'''")]),
        ('""""a"""', [("STRING", '""""a"""')]),
        (r'r"\d"', [("STRING", r'r"\d"')]),
        ("bR'x'", [("BYTES", "bR'x'")]),
        ('rb"x"', [("IDENT", "rb"), ("STRING", '"x"')]),
        ("a // b\n c", [("IDENT", "a"), ("IDENT", "c")]),
        ("x.`a-b/c`", [("IDENT", "x"), (".", "."), ("ESCAPED", "`a-b/c`")]),
        ("a\t<=\f b", [("IDENT", "a"), ("<=", "<="), ("IDENT", "b")]),
    ],
)
def test_token_kinds_and_texts(source: str, expected: list[tuple[str, str]]) -> None:
    assert kinds(source) == expected


@pytest.mark.parametrize(
    ("source", "offset"),
    [
        ('a == "b', 5),
        ('"""a', 2),  # the first two quotes are an empty string
        (r'"\q"', 0),
        ("'a\nb'", 0),
        ("a & b", 2),
        ("a = b", 2),
        ("é", 0),
        ("x@", 1),
        (r'"\400"', 0),
    ],
)
def test_a_character_that_starts_no_token_ends_the_list(source: str, offset: int) -> None:
    last = tokenize(source)[-1]
    assert (last.kind, last.pos) == (ERROR, offset)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("piece", ['"', '"""', "'''a", "r'''", '"""a"', "\\", '"\\a', "`a", "0x", "1e"])
def test_invalid_literals_take_linear_time(piece: str) -> None:
    """With quadratic time this would take minutes."""
    assert tokenize(piece * (1_000_000 // len(piece)))[-1].kind in (EOF, ERROR)
