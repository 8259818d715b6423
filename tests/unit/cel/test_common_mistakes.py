"""Expressions in other languages' words, mended until they parse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.common_mistakes import fix_mistakes
from allotment.cel.syntax.parser import parse


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a = 1", "a == 1"),
        ("a => 1 and b =< 2", "a >= 1 && b <= 2"),
        ("a === b", "a == b"),
        ("a !== b", "a != b"),
        ("a <> b", "a != b"),
        ("a & b | c", "a && b || c"),
        ("a AND (b or c)", "a && (b || c)"),
        ("not a.b", "!a.b"),
        ("not a == b && c", "!(a == b) && c"),
        ("not a = b and c", "!(a == b) && c"),
        ("x in y and not z in [1, 2]", "x in y && !(z in [1, 2])"),
        ("a && x not in [1, 2] || c", "a && !(x in [1, 2]) || c"),
        ("device.driver == “gpu”", 'device.driver == "gpu"'),
        ("a == ‘x’", "a == 'x'"),
        ("f(x = 1)", "f(x == 1)"),
        ("a ? b = c : d", "a ? b == c : d"),
    ],
)
def test_slips_are_mended(written: str, meant: str) -> None:
    found = fix_mistakes(written)
    assert found is not None
    assert found.expression == meant
    parse(found.expression)
    # Each slip stands where it was written.
    for slip in found.mistakes:
        assert written[slice(*slip.span)].replace(" ", "") == slip.text.replace(" ", "")


@pytest.mark.parametrize(
    "source", ["a == b", "", "a == 'x", "(a == b", "a &&", "a, b", "`a`", "a == b;", "a =~ b", "and", '"=" == "and"']
)
def test_what_parses_and_what_nothing_helps_is_left_alone(source: str) -> None:
    assert fix_mistakes(source) is None


@given(
    st.lists(
        st.sampled_from(
            ["a", "b.c", "(", ")", "not ", " = ", " and ", " in ", "&", "|", "“", "”", "'", "1", ",", "[", "]"]
        )
    ).map("".join)
)
def test_what_is_mended_parses(source: str) -> None:
    found = fix_mistakes(source)
    if found is not None:
        parse(found.expression)
        assert found.mistakes
        assert fix_mistakes(found.expression) is None
