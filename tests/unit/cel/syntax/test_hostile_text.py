"""Hostile expressions: for any text, static analysis succeeds or raises CompileError within seconds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.cel.checking.checker import check
from allotment.cel.checking.estimate import estimate
from allotment.cel.checking.validators import validate
from allotment.cel.errors import CompileError
from allotment.cel.syntax.parser import parse
from tests.unit.cel.compiling import DYNAMIC, STORED

PIECES = [
    "a", "device", ".driver", '.attributes["d"]', ".x", "[", "]", "(", ")", "{", "}", ",", ":", "?", ".", "&&", "||",
    "==", "<", "in", "!", "-", "+", "*", "/", "%", "1", "2u", "1.5", "'s'", "b's'", "true", "null", " ", "\n", "\t",
    ".map(x, ", ".all(k, v, ", ".exists(x, ", ".filter(x, ", ".sortBy(x, ", "cel.bind(x, ", ".optMap(x, ", "has(",
    "dyn(", "type(", "size(", "quantity(", "semver(", ".format([", "optional.of(", ".?", "[?", "{?", "'", '"', '"""',
    "\\", "\\u00", "@", "`", "é", "😀", "//", "0x", "1e", ".flatten()", ".transformMap(k, v, ", "[]", "{}", "x",
]  # fmt: skip

texts = st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=60)


def compile_error(source: str) -> CompileError | None:
    """The compile error of a text; None if it compiles in both environments."""
    try:
        estimate_in_both_environments(source)
    except CompileError as error:
        return error
    return None


def estimate_in_both_environments(source: str) -> None:
    for environment in (STORED, DYNAMIC):
        checked = check(parse(source, environment.macros), environment)
        validate(checked)
        least, most = estimate(checked)
        assert least >= 0
        assert most < 2**64


@settings(max_examples=400)
@given(texts)
def test_only_compile_errors_are_raised(source: str) -> None:
    error = compile_error(source)
    if error is not None:
        assert str(error)
        assert all(i.line <= source.count("\n") + 1 for i in error.issues)


operands = st.sampled_from(
    ["1", "'a'", "true", "x", "device", 'device.attributes["d"].a', 'device.capacity["d"]', "[]", "{}", "[1, 2]",
     "optional.none()", "dyn(1)", "null", "quantity('1')"]
)  # fmt: skip
shapes = st.recursive(
    operands,
    lambda e: st.one_of(
        st.tuples(e, st.sampled_from(["==", "+", "<", "&&", "||", "in"]), e).map(" ".join),
        st.tuples(e, e, e).map(lambda t: "({} ? {} : {})".format(*t)),
        st.tuples(e, e).map(lambda t: "[{}, {}]".format(*t)),
        st.tuples(e, e).map(lambda t: "{{{}: {}}}".format(*t)),
        st.tuples(e, st.sampled_from(["all", "exists", "map", "filter", "sortBy", "optMap"]), e).map(
            lambda t: "{}.{}(x, {})".format(*t)
        ),
        st.tuples(e, e).map(lambda t: "cel.bind(x, {}, {})".format(*t)),
        e.map(lambda t: f"{t}.flatten()"),
        e.map(lambda t: f"{t}.orValue([])"),
        st.tuples(e, e).map(lambda t: "{}[?{}]".format(*t)),
    ),
    max_leaves=12,
)


@settings(max_examples=200)
@given(shapes)
def test_well_formed_expressions_have_no_syntax_errors(source: str) -> None:
    assert "Syntax error" not in str(compile_error(source))


LARGE: list[Callable[[int], str]] = [
    lambda n: "(" * n + "1" + ")" * n,
    lambda n: "[" * n + "]" * n,
    lambda n: "[1].map(x, " * (n // 12) + "1" + ")" * (n // 12),
    lambda n: " && ".join(["true"] * (n // 8)),
    lambda n: " + ".join(["1"] * (n // 4)),
    lambda n: "true ? true : " * (n // 14) + "true",
    lambda n: "[" + ", ".join(["1"] * (n // 3)) + "] == []",
    lambda n: "{" + ", ".join(f"{i}: {i}" for i in range(n // 10)) + "} == {}",
    lambda n: " || ".join(["x == 1"] * (n // 10)),
    lambda n: "device" + ".a" * (n // 2),
    lambda n: '"' * n,
    lambda n: '"""' + "a" * n,
    lambda n: "9" * n,
    lambda n: "'" + r"\n" * (n // 2) + "'",
    lambda n: "-" * n + "1",
    lambda n: "a ? " * (n // 4),
    lambda n: "optional.of(1)" + ".optMap(x, x)" * (n // 13),
    lambda n: "cel.bind(a, {}, " + "cel.bind(a, {a: a}, " * (n // 22) + "true" + ")" * (n // 22 + 1),
    lambda n: "{1: " * (n // 5) + "1" + "}" * (n // 5),
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("shape", LARGE)
def test_the_largest_expressions_terminate(shape: Callable[[int], str]) -> None:
    """Validation admits at most 10 KiB; the timeout is about a thousand times the time of the slowest shape."""
    compile_error(shape(10_000))
