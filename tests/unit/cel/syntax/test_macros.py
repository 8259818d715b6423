"""Macro expansions, on whose shapes costs depend, and errors of invalid arguments."""

from __future__ import annotations

import pytest

from allotment.cel.errors import CompileError
from allotment.cel.syntax.ast import Comprehension, walk
from allotment.cel.syntax.parser import parse
from tests.unit.cel.compiling import shown


@pytest.mark.parametrize(
    ("source", "tree"),
    [
        ("has(a.b.c)", "has(a.b.c)"),
        (
            "a.all(x, p)",
            "fold(x over a; @result = True; while @not_strictly_false(@result); _&&_(@result, p); @result)",
        ),
        (
            "a.exists(k, v, p)",
            "fold(k, v over a; @result = False; while @not_strictly_false(!_(@result)); _||_(@result, p); @result)",
        ),
        (
            "a.exists_one(x, p)",
            "fold(x over a; @result = 0; while True; _?_:_(p, _+_(@result, 1), @result); _==_(@result, 1))",
        ),
        ("a.map(x, t)", "fold(x over a; @result = []; while True; _+_(@result, [t]); @result)"),
        (
            "a.map(x, p, t)",
            "fold(x over a; @result = []; while True; _?_:_(p, _+_(@result, [t]), @result); @result)",
        ),
        ("a.filter(x, p)", "fold(x over a; @result = []; while True; _?_:_(p, _+_(@result, [x]), @result); @result)"),
        (
            "a.transformMap(k, v, t)",
            "fold(k, v over a; @result = {}; while True; cel.@mapInsert(@result, k, t); @result)",
        ),
        (
            "a.transformMapEntry(k, v, p, t)",
            "fold(k, v over a; @result = {}; while True; _?_:_(p, cel.@mapInsert(@result, t), @result); @result)",
        ),
        ("cel.bind(x, i, b)", "fold(#unused over []; x = i; while False; x; b)"),
        (
            "a.optMap(x, b)",
            (
                "_?_:_(a.hasValue(), optional.of(fold(#unused over []; x = a.value(); while False; x; b)), "
                "optional.none())"
            ),
        ),
        ("b.bind(x, i, c)", "b.bind(x, i, c)"),
        ("a.all(x)", "a.all(x)"),
        ("a.existsOne(x, p)", "a.existsOne(x, p)"),
        ("all(x, p)", "all(x, p)"),
        ("a.has(b)", "a.has(b)"),
    ],
)  # fmt: skip
def test_expansions(source: str, tree: str) -> None:
    assert shown(parse(source).expr) == tree


def test_sort_by_binds_its_input_and_maps_it_to_keys() -> None:
    text = shown(parse("a.sortBy(x, x.n)").expr)
    assert text.startswith("fold(#unused over []; @__sortBy_input__ = a; while False;")
    assert "@__sortBy_input__.@sortByAssociatedKeys(fold(x over @__sortBy_input__;" in text


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("a.all(1, p)", "1:7: argument must be a simple name"),
        ("a.all(x.y, p)", "1:8: argument must be a simple name"),
        ("a.exists(k, 'v', p)", "1:13: argument must be a simple name"),
        ("a.exists(k, k, p)", "1:13: duplicate variable name: k"),
        ("a.map('x', 1)", "1:7: argument is not an identifier"),
        ("a.filter(f(), 1)", "1:11: argument is not an identifier"),
        ("a.all(__result__, p)", "1:7: iteration variable overwrites accumulator variable"),
        ("cel.bind(1, 2, 3)", "1:10: cel.bind() variable names must be simple identifiers"),
        ("a.optMap(1, 2)", "1:10: optMap() variable name must be a simple identifier"),
        ("a.optFlatMap(1, 2)", "1:14: optFlatMap() variable name must be a simple identifier"),
        (
            "1.sortBy(x, x)",
            "1:1: sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        ),
        ("has(a)", "1:5: invalid argument to has() macro"),
    ],
)
def test_invalid_arguments(source: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        parse(source)
    assert str(caught.value).split("\n")[0] == f"compilation failed: ERROR: <input>:{message}"


def test_generated_nodes_have_the_position_of_the_parenthesis() -> None:
    comprehension = parse("list.map(x, x)").expr
    assert isinstance(comprehension, Comprehension)
    assert {n.pos for n in walk(comprehension)} == {0, 8, 12}


def test_exponential_copies_are_rejected_early() -> None:
    with pytest.raises(CompileError, match="expression too large after macro expansion"):
        parse("optional.of(1)" + ".optMap(x, x)" * 40)
