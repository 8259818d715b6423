"""Validation of literals."""

from __future__ import annotations

import pytest

from allotment.cel.errors import CompileError
from tests.unit.cel.compiling import STORED, compiled


def errors(source: str) -> list[str]:
    with pytest.raises(CompileError) as caught:
        compiled(source)
    lines = str(caught.value).removeprefix("compilation failed: ").split("\n")
    return [line.removeprefix("ERROR: <input>:") for line in lines if line.startswith("ERROR")]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("[1, 'a', 2, true]", ["1:5: expected type 'int' but found 'string'"]),
        ("[dyn(1), 1]", ["1:10: expected type 'dyn' but found 'int'"]),
        ("[1, null]", ["1:5: expected type 'int' but found 'null'"]),
        ("[[], 1]", ["1:6: expected type 'list(dyn)' but found 'int'"]),
        ("{1: 'a', 'b': 2, true: 'c'}", [
            "1:10: expected type 'int' but found 'string'", "1:15: expected type 'string' but found 'int'",
            "1:18: expected type 'int' but found 'bool'",
        ]),
        ("dyn([1, 'a'])", ["1:9: expected type 'int' but found 'string'"]),
        ("duration('1d')", ["1:10: invalid duration argument"]),
        ("duration(1)", ["1:10: invalid duration argument"]),
        ("timestamp('2024-01-01')", ["1:11: invalid timestamp argument"]),
        ("timestamp(253402300800)", ["1:11: invalid timestamp argument"]),
        ("'a'.matches('[')", ["1:13: invalid matches argument"]),
        ("matches('[', 'a')", ["1:9: invalid matches argument"]),
        ("'%d'.format(['a'])", [
            "1:14: error during formatting: decimal clause can only be used on integers, was given string",
        ]),
        ("'%s'.format([[ip('::1')]])", [
            (
                "1:17: error during formatting: string clause can only be used on strings, bools, bytes, ints, "
                "doubles, maps, lists, types, durations, and timestamps, was given net.IP"
            ),
        ]),
        ("'%s %s'.format([1])", ["1:15: index 1 out of range"]),
        ("'%s'.format([1, 2])",
         ["1:12: too many arguments supplied to string.format (expected 1, got 2)"]),
        ("'%'.format([1])", ["1:11: unexpected end of string"]),
        ("'%y'.format([1])", ["1:12: could not parse formatting clause: unrecognized formatting clause \"y\""]),
    ],
)  # fmt: skip
def test_invalid_literals(source: str, expected: list[str]) -> None:
    assert errors(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "[[], [1]]",
        "[{}, {'a': 1}]",
        "[?optional.of(1), 2]",
        "'%s %s'.format([1, 'a'])",
        "'%d'.format([dyn('a')])",
        "'%.3f%%'.format([1.0])",
        "'%s'.format(dyn([1]))",
        "duration('1h30m') > duration(string('x'))",
        "timestamp(0) < timestamp('2024-01-01T00:00:00Z')",
        "'a'.matches('[a-z]+')",
        "'a'.matches(device.driver)",
        "matches('a', device.driver)",
    ],
)
def test_valid_literals(source: str) -> None:
    compiled(source, STORED)


@pytest.mark.parametrize("source", ["[?dyn(1)]", "{?'a': dyn(1)}"])
def test_expressions_that_crash_upstream_are_errors(source: str) -> None:
    assert "optional_type(dyn)" in errors(source)[0]
