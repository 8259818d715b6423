"""Examples for the functions of the libraries; the recorded vectors cover them broadly."""

from __future__ import annotations

import pytest

from allotment.cel.checking.declarations import core, extensions, kubernetes, parse_table
from allotment.cel.evaluation.library import OVERLOADS, SINGLETONS
from tests.unit.cel.compiling import STORED_1_37
from tests.unit.cel.evaluating import evaluate, outcome


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('"hello".charAt(5)', ""),
        ('"hello".charAt(6)', "error: index out of range: 6"),
        ('"héllo".indexOf("l", 3)', 3),
        ('"aaa".lastIndexOf("a", 1)', 1),
        ('"a".indexOf("", 9)', 9),
        ('"abc".split("", 2)', ["a", "bc"]),
        ('"a,b".split(",", 0)', []),
        ('"abc".replace("", "-", 2)', "-a-bc"),
        ('"İI".lowerAscii()', "İi"),
        ('"\\u2003x\\u200b".trim()', "x\u200b"),
        ('"hello".substring(2, 1)', "error: invalid substring range. start: 2, end: 1"),
        ('strings.quote("a\\"\\n")', '"a\\"\\n"'),
        ("dyn([1]).join()", "error: no such overload: join(list)"),
        ('"a1b22".findAll("[0-9]+", 1)', ["1"]),
        ('"abc".find("x")', ""),
        ('dyn(type(1)).find("n")', "n"),
        ("[3, 1].isSorted()", False),
        ("[].min()", "error: min called on empty list"),
        ("[1, 2].sum()", 3),
        ("[].sum()", 0),
        ("[9223372036854775807, 1].sum()", "error: integer overflow"),
        ("[1, 2, 1].lastIndexOf(1)", 2),
        ("[1].indexOf(5)", -1),
        ("[1, 2, 3].slice(1, 4)", "error: cannot slice(1, 4), list is length 3"),
        ("[[[1]], [[2], []]].flatten(2)", [1, 2]),
        ("dyn({1: 2}).flatten()", "error: no such overload: map(dyn, dyn).flatten()"),
        ("[2, 1, 2].distinct()", [2, 1]),
        ("[2.0, 1.0].sort()", [1.0, 2.0]),
        ("[null].sort()", "error: list elements must be comparable"),
        ("([1] + dyn(['a'])).sort()", "error: list elements must have the same type"),
        ("lists.range(3).reverse()", [2, 1, 0]),
        ("lists.range(-1)", []),
        ("[].first()", None),
        ("[1, 2].last()", (2,)),
        ("sets.contains([1, 2], [2, 2])", True),
        ("sets.equivalent([1], [2])", False),
        ("sets.intersects([], [1])", False),
        ("optional.ofNonZeroValue({})", None),
        ('optional.ofNonZeroValue(quantity("0")).hasValue()', True),
        ("[optional.of(1), optional.none()].unwrapOpt()", [1]),
        ("optional.none().value()", "error: optional.none() dereference"),
        ('quantity("1Pi").isInteger()', False),
        ('quantity("1Pi").asInteger()', "error: cannot convert value to integer"),
        ('quantity("1").add(1)', 2 * 10**9),
        ('sign(quantity("-1k"))', -1),
        ('semver("9223372036854775808.0.0").major()', -(2**63)),
        ('semver("1.0.0-a").isLessThan(semver("1.0.0"))', True),
        ('isSemver("1.0")', False),
        ('isSemver("1.0", true)', True),
        ('ip.isCanonical("2001:DB8::1")', False),
        ('cidr("10.0.0.0/8").containsIP("x")', "error: no such overload"),
        ('string(cidr("10.1.2.3/16").masked())', "10.1.0.0/16"),
        ('format.named("nope")', None),
        ('format.dns1123Label().validate("a.b")', (["must not contain dots"],)),
        ('format.labelValue().validate("")', None),
        ('format.dns1123LabelPrefix().validate("ab-")', None),
        ('format.date().validate("2021-02-29")', (["invalid date"],)),
        ('format.datetime().validate("2021-01-01t23:59:59z")', None),
        ('format.byte().validate("YQ==")', None),
        ('"abc".includes("abc")', True),
        ("[1, 2].includes(2u)", True),
        ('semver("1.0.0").includes(1)', False),
        ("lists.range(49).includes(48)", "error: 'includes' function cannot be applied to lists longer than 48 values"),
        ("lists.range(49).includes(47)", True),
        ('double("1_0")', 10.0),
        ('double("0x1p4")', 16.0),
        ('double("inf")', "Infinity"),
        ("int([9.3e18][0])", "error: integer overflow"),
        ("-5 / 2", -2),
        ("-5 % 2", -1),
        ("1.0 / 0.0", "Infinity"),
        ("-1.0 / 0.0", "-Infinity"),
        ("1u - 2u", "error: unsigned integer overflow"),
        ("-9223372036854775808 / -1", "error: integer overflow"),
        ("-9223372036854775808 % -1", "error: integer overflow"),
        ('bytes("é").size()', 2),
        ('"é" < "z"', False),
        ("false < true", True),
        ('string(dyn(url("http://a")))', "error: no such overload: string(kubernetes.URL)"),
    ],
)
def test_function_results(expression: str, expected: object) -> None:
    assert outcome(f"dyn({expression})") == expected


def test_every_declared_function_has_an_implementation() -> None:
    tables = (*core.TABLES, *kubernetes.TABLES, *extensions.TABLES, extensions.LISTS, kubernetes.INCLUDES)
    # The planner implements operators and lazy functions; authorizer functions have no values to be called on.
    planner_functions = {
        "_?_:_",
        "_&&_",
        "_||_",
        "!_",
        "@not_strictly_false",
        "__not_strictly_false__",
        "_==_",
        "_!=_",
        "_[_]",
        "_[?_]",
        "_?._",
        "or",
        "orValue",
    }
    authorizer = ("authorizer_", "groupcheck_", "resourcecheck_", "pathcheck_", "decision_")
    missing = [
        overload.id
        for name, overload in (row for table in tables for row in parse_table(table))
        if name not in planner_functions
        and name not in SINGLETONS
        and overload.id not in OVERLOADS
        and not overload.id.startswith(authorizer)
    ]
    assert missing == []


def test_lists_of_any_length_include_values_since_1_37() -> None:
    found = evaluate("lists.range(49).includes(48)", environment=STORED_1_37)
    assert (found.value, found.error) == (True, None)
    assert evaluate('"abc".includes("abc") && ![1].includes("1")', environment=STORED_1_37).value is True
