from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.evaluation.float_format import format_shortest_f, format_shortest_g
from allotment.cel.evaluation.value_format import go_format
from allotment.cel.evaluation.values import (
    ABSENT,
    Duration,
    ListValue,
    MapValue,
    Optional,
    Timestamp,
    TypeValue,
    map_key,
)


@pytest.mark.parametrize(
    ("value", "text"),
    # Recorded from Go's fmt.
    [
        (1.0, "1"),
        (123456.0, "123456"),
        (1234567.0, "1.234567e+06"),
        (1e20, "1e+20"),
        (123456789.125, "1.23456789125e+08"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (-0.0, "-0"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Inf"),
        (5e-324, "5e-324"),
        (100000.0, "100000"),
    ],
)
def test_doubles_are_formatted_as_in_go(value: float, text: str) -> None:
    assert format_shortest_g(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_both_formats_of_a_double_round_trip(value: float) -> None:
    assert float(format_shortest_g(value)) == value
    assert float(format_shortest_f(value)) == value
    assert "e" not in format_shortest_f(value)


def test_values_are_formatted_as_in_error_texts() -> None:
    pair = MapValue({map_key("k"): ("k", ListValue([1, "x", None]))})
    assert go_format(pair) == "{k: [1, x, 0]}"
    assert go_format(Optional(1.5)) == "optional(1.5)"
    assert go_format(Optional(ABSENT)) == "optional.none()"
    assert go_format(TypeValue("int")) == "int"
    assert go_format(b"ab") == "[97 98]"
    assert go_format(Duration(90 * 60 * 10**9 + 1)) == "1h30m0.000000001s"
    assert go_format(Timestamp(0)) == "1970-01-01 00:00:00 +0000 UTC"


def test_exponentially_nested_values_are_truncated() -> None:
    nested = ListValue(["x"])
    for _ in range(60):
        nested = ListValue([nested, nested])
    assert len(go_format(nested)) < 10_000_000
