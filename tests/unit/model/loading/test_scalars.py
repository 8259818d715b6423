"""Plain scalars, resolved as by kubectl."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.model.loading import load_text
from allotment.model.loading.scalars import ScalarError, plain_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True), ("y", True), ("On", True), ("TRUE", True), ("n", False), ("off", False), ("No", False),
        ("yEs", "yEs"), ("truE", "truE"), ("", None), ("~", None), ("Null", None), ("nil", "nil"),
        ("0", 0), ("-12", -12), ("+3", 3), ("010", 8), ("0o14", 12), ("0x1F", 31), ("0b101", 5), ("-0b11", -3),
        ("1_000", 1000), ("08", 8), ("1__0_", 10), ("8.0", 8), ("1e3", 1000), ("1.5", 1.5), ("-.5e1", -5),
        ("1.", 1), ("1e400", "1e400"), ("1.2.3", "1.2.3"), ("0x", "0x"), ("_1", "_1"), (".5_", ".5_"), ("-", "-"),
        (".", "."), (".5", 0.5),
        ("18446744073709551615", 18446744073709551615), ("-9223372036854775808", -9223372036854775808),
        ("18446744073709551616", 18446744073709552000), ("1:30", "1:30"), ("2001-01-01", "2001-01-01"),
        ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"), ("40Gi", "40Gi"), ("0.0", 0), ("<<", "<<"),
    ],
)  # fmt: skip
def test_plain_scalars(text: str, value: object) -> None:
    found = plain_value(text)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a: 'yes'", {"a": "yes"}),
        ("y: 1", {"true": 1}),
        ("1: a\n1.5: b\nfalse: c", {"1": "a", "1.5": "b", "false": "c"}),
        ("a: !!str 5", {"a": "5"}),
        ("a: !!float 5", {"a": 5}),
        ("a: !!binary aGk=", {"a": "hi"}),
        ("a: !custom 5", {"a": "5"}),
        ("a: ! 5", {"a": "5"}),
        ("a: !!null ''", {"a": None}),
        ("a: |\n  5\n", {"a": "5\n"}),
        ("a: >-\n  b\n  c\n", {"a": "b c"}),
        ("a:", {"a": None}),
        ("value: 40", {"value": 40}),
    ],
)
def test_tags_quotes_and_keys_are_resolved(text: str, tree: object) -> None:
    loaded = load_text(text)
    assert [document.tree for document in loaded.documents] == [tree]


@given(st.text(alphabet="0123456789+-._eExXbBoOyYnN~<", max_size=8))
def test_any_scalar_is_a_json_value_or_an_error(text: str) -> None:
    try:
        value = plain_value(text)
    except ScalarError:
        assert text.lower().lstrip("+-") in (".nan", ".inf")
        return
    assert value is None or type(value) in (str, int, float, bool)
