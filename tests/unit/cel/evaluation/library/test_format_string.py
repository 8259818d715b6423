from __future__ import annotations

import pytest

from tests.unit.cel.evaluating import outcome


@pytest.mark.parametrize(
    ("clause", "value", "expected"),
    # Recorded from Kubernetes 1.36.2.
    [
        ("%f", "2.71828", "2.718280"),
        ("%.0f", "2.5", "2"),
        ("%.3f", "-0.0001", "-0.000"),
        ("%f", "-0.0", "0.000000"),
        ("%.1f", "123456789.125", "123,456,789.1"),
        ("%.256f", "0.25", "0.25"),
        ("%.300f", "0.5", "0.5" + "0" * 43),
        ("%f", 'double("-Infinity")', "-∞"),
        ("%e", "2.71828", "2.718280×10⁰⁰"),
        ("%.3e", "1234.5678", "1.234568×10⁰³"),
        ("%.30e", "-2.5", " " * 16 + "-2.500000×10⁰⁰"),
        ("%e", 'double("NaN")', "   NaN"),
        ("%e", "5e-324", "4.940656×10⁻³²⁴"),
        ("%x", "-255", "-ff"),
        ("%X", '"hi"', "6869"),
        ("%b", "-5", "-101"),
        ("%o", "8u", "10"),
        ("%s", "1.5e20", "1.5e+20"),
        ("%s", '[1, "a", 1.5, b"x", null, duration("1s")]', '[1, "a", 1.500000, b"x", null, duration("1s")]'),
        ("%s", '{"b": 1, "a": {true: [2u]}}', '{"a":{true:[2]}, "b":1}'),
        ("%s", "int", "int"),
        ("%s", '[double("NaN"), double("Infinity")]', '["NaN", "+Inf"]'),
    ],
)
def test_clauses_format_values(clause: str, value: str, expected: str) -> None:
    assert outcome(f'dyn("{clause}").format([dyn({value})])') == expected


@pytest.mark.parametrize(
    ("text", "arguments", "error"),
    [
        ("%d", '["a"]', "error during formatting: decimal clause can only be used on integers, was given string"),
        (
            "%s",
            '[quantity("1")]',
            (
                "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, "
                "maps, lists, types, durations, and timestamps, was given kubernetes.Quantity"
            ),
        ),
        (
            "%s",
            '[b"\\xff"]',
            (
                'error during formatting: could not convert argument "invalid UTF-8 in bytes, cannot convert '
                'to string" to string'
            ),
        ),
        ("%y", "[1]", 'could not parse formatting clause: unrecognized formatting clause "y"'),
        ("%s%s", "[1]", "index 1 out of range"),
        ("%s", "[{1.5: 1}]", "error during formatting: no formatting function for map key of type double"),
    ],
)
def test_format_errors(text: str, arguments: str, error: str) -> None:
    assert outcome(f'dyn("{text}").format(dyn({arguments}))') == f"error: {error}"
