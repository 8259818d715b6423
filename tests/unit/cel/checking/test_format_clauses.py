"""Parsing of the clauses of ``string.format``."""

from __future__ import annotations

import pytest

from allotment.cel.checking.format_clauses import Clause, FormatError, clauses

PRECISION = "could not parse formatting clause: error while parsing precision: "
NUMBER = "error while converting precision to integer: strconv.Atoi: parsing "


def test_text_and_clauses_are_in_order() -> None:
    assert list(clauses("a%%b%.2e%x", 2)) == ["a", "%", "b", Clause("e", 2, 0), Clause("x", None, 1)]
    assert list(clauses("", 3)) == []


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("%", 0, "unexpected end of string"),
        ("%s%s", 1, "index 1 out of range"),
        ("%é", 1, 'could not parse formatting clause: unrecognized formatting clause "Ã"'),
        ("%.", 1, f"{PRECISION}could not find end of precision specifier"),
        ("%.f", 1, f'{PRECISION}{NUMBER}"": invalid syntax'),
        ("%.99999999999999999999f", 1, f'{PRECISION}{NUMBER}"99999999999999999999": value out of range'),
    ],
)
def test_invalid_format_strings(text: str, arguments: int, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        list(clauses(text, arguments))
    assert str(caught.value) == message
