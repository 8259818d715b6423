"""Fixes for expressions in the syntax of other languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.common_mistakes import fix_mistakes
from allotment.cel.syntax.parser import parse


@pytest.mark.parametrize(
    ("written", "fixed"),
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
def test_mistakes_are_fixed(written: str, fixed: str) -> None:
    found = fix_mistakes(written)
    assert found is not None
    assert found.expression == fixed
    parse(found.expression)
    # Spans refer to the original text.
    for mistake in found.mistakes:
        assert written[slice(*mistake.span)].replace(" ", "") == mistake.text.replace(" ", "")


@pytest.mark.parametrize(
    "source", ["a == b", "", "a == 'x", "(a == b", "a &&", "a, b", "`a`", "a == b;", "a =~ b", "and", '"=" == "and"']
)
def test_valid_and_unfixable_expressions_give_none(source: str) -> None:
    assert fix_mistakes(source) is None


@given(
    st.lists(
        st.sampled_from(
            ["a", "b.c", "(", ")", "not ", " = ", " and ", " in ", "&", "|", "“", "”", "'", "1", ",", "[", "]"]
        )
    ).map("".join)
)
def test_fixed_expressions_parse(source: str) -> None:
    found = fix_mistakes(source)
    if found is not None:
        parse(found.expression)
        assert found.mistakes
        assert fix_mistakes(found.expression) is None
