"""Parsing: precedence, positions, limits. The expected errors are upstream's."""

from __future__ import annotations

import pytest

from allotment.cel.checking.environment import declare_environment
from allotment.cel.errors import CompileError
from allotment.cel.syntax.ast import walk
from allotment.cel.syntax.parser import parse
from tests.unit.cel.compiling import shown


def parse_error(source: str) -> str:
    with pytest.raises(CompileError) as caught:
        parse(source)
    return str(caught.value)


@pytest.mark.parametrize(
    ("source", "tree"),
    [
        ("1 + 2 * 3 - 4", "_-_(_+_(1, _*_(2, 3)), 4)"),
        ("a < b == c in d", "@in(_==_(_<_(a, b), c), d)"),
        ("a || b && c", "_||_(a, _&&_(b, c))"),
        ("a && b && c && d", "_&&_(_&&_(a, b), _&&_(c, d))"),
        ("a || b || c", "_||_(_||_(a, b), c)"),
        ("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))"),
        ("-1", "-1"),
        ("--1", "1"),
        ("---a", "-_(a)"),
        ("!!a", "a"),
        ("!-1", "!_(-1)"),
        ("1 - -1", "_-_(1, -1)"),
        ("1-1", "_-_(1, 1)"),
        ("-1.a", "-1.a"),
        ("-a.b", "-_(a.b)"),
        ("a.b.c(d)[e]", "_[_](a.b.c(d), e)"),
        ("a.?b[?c]", "_[?_](_?._(a, 'b'), c)"),
        (".a.b", ".a.b"),
        (".f(1)", ".f(1)"),
        ("[1, ?a, 2,]", "[1, ?a, 2]"),
        ("[,]", "[]"),
        ("{1: 2, ?'a': b,}", "{1: 2, ?'a': b}"),
        ("{,}", "{}"),
        ("a.b{c: 1, ?d: 2}", "a.b{c: 1, d: 2}"),
        ("{'a': 1}.a", "{'a': 1}.a"),
        ("a.namespace.package", "a.namespace.package"),
        ("true ? 1u : 2.0", "_?_:_(True, 1u, 2.0)"),
    ],
)
def test_syntax_trees(source: str, tree: str) -> None:
    assert shown(parse(source).expr) == tree


@pytest.mark.parametrize(
    ("source", "position"),
    [
        ("", "1:0"),
        ("1 +\n", "2:1"),
        ("a b", "1:3"),
        ("a.", "1:3"),
        ("a.in", "1:3"),
        ("a.1", "1:2"),
        ("[1,,]", "1:4"),
        ("f(1,)", "1:5"),
        ("{1}", "1:3"),
        ("a ? b", "1:6"),
        ("(a", "1:3"),
        ("a == 'b", "1:6"),
        ("a.?b(c)", "1:5"),
        ("!-a", "1:3"),
        ("'a' \"b\"", "1:5"),
        ("a ? b ? c : d : e", "1:7"),
    ],
)
def test_syntax_errors_have_upstream_positions(source: str, position: str) -> None:
    assert parse_error(source).startswith(f"compilation failed: ERROR: <input>:{position}: Syntax error: ")


@pytest.mark.parametrize(
    ("source", "messages"),
    [
        ("9223372036854775808 + break", ["1:1: invalid int literal", "1:23: reserved identifier: break"]),
        ("while(1) == for", ["1:1: reserved identifier: while", "1:13: reserved identifier: for"]),
        ("'\\ud800' + 1e400", ["1:1: invalid unicode code point", "1:12: invalid double literal"]),
        ("has(a) || has(b())", ["1:5: invalid argument to has() macro", "1:16: invalid argument to has() macro"]),
        ("a.`b` == c.`d`", ["1:3: unsupported syntax: '`'", "1:12: unsupported syntax: '`'"]),
    ],
)
def test_errors_outside_the_grammar_are_collected(source: str, messages: list[str]) -> None:
    blocks = [line for line in parse_error(source).split("\n") if "ERROR" in line]
    assert blocks == [
        f"{'compilation failed: ' if i == 0 else ''}ERROR: <input>:{message}" for i, message in enumerate(messages)
    ]


NESTED = "compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 250"
CHAINED = "compilation failed: ERROR: <input>:-1:0: max recursion depth exceeded"


@pytest.mark.parametrize(
    ("shape", "fits", "text"),
    [
        (lambda n: "(" * n + "a" + ")" * n, 249, NESTED),
        (lambda n: "[" * n + "]" * n, 250, NESTED),
        (lambda n: "f(" * n + ")" * n, 250, NESTED),
        (lambda n: "a ? a : " * n + "a", 249, NESTED),
        (lambda n: "1 + (" * n + "1" + ")" * n, 124, NESTED),
        (lambda n: "1 + 2 * (" * n + "1" + ")" * n, 83, NESTED),
        (lambda n: "1 == (" * n + "1" + ")" * n, 124, NESTED),
        (lambda n: "a" + " + a" * n, 250, CHAINED),
        (lambda n: "a" + ".b" * n, 250, CHAINED),
        (lambda n: "a" + "[0]" * n, 250, CHAINED),
        (lambda n: "a" + ".b()" * n, 250, CHAINED),
        (lambda n: "a" + " < a" * n, 250, CHAINED),
    ],
)  # fmt: skip
def test_nesting_limits(shape: object, fits: int, text: str) -> None:
    assert callable(shape)
    parse(shape(fits))
    assert parse_error(shape(fits + 1)) == text


def test_long_flat_expressions_are_not_nested() -> None:
    parse(" && ".join(["a"] * 3000))
    parse("[" + ", ".join(["1"] * 5000) + "]")
    parse("!" * 9999 + "a")


def test_the_length_limit_counts_code_points() -> None:
    parse(" " * 99_997 + "'é'")
    text = parse_error(" " * 100_000 + "1")
    assert text.endswith("expression code point size exceeds limit: size: 100001, limit 100000")


def test_operators_are_positioned_at_their_sign_and_calls_at_their_parenthesis() -> None:
    positions = {type(n).__name__ + getattr(n, "function", ""): n.pos for n in walk(parse("a.b + f(x)[0]").expr)}
    assert positions["Call_+_"] == 4
    assert positions["Callf"] == 7
    assert positions["Call_[_]"] == 10
    assert positions["Select"] == 1


def test_conjuncts_are_the_flattened_operands() -> None:
    source = "a == 1 && (b && c) && [x].all(y, y && z) && (d || e)"
    texts = [source[t.start : t.stop] for t in parse(source).conjuncts()]
    assert texts == ["a == 1", "b", "c", "[x].all(y, y && z)", "(d || e)"]
    (whole,) = parse("a || b").conjuncts()
    assert (whole.start, whole.stop) == (0, 6)


def test_node_ids_are_unique() -> None:
    source = "a.optMap(x, x + 1).orValue(2) == 3 && {1: [b]}.all(k, v, k in v) && has(c.d)"
    ids = [n.id for n in walk(parse(source).expr)]
    assert len(ids) == len(set(ids))


def test_an_environment_without_lists_v3_has_no_sort_by() -> None:
    macros = declare_environment("1.34", "new", True, False).macros
    assert shown(parse("[1].sortBy(x, x)", macros).expr) == "[1].sortBy(x, x)"
