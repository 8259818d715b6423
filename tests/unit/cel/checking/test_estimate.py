"""Cost estimates; the expected numbers are upstream's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.checking import ranges
from allotment.cel.checking.estimate import estimate
from allotment.cel.checking.ranges import MAX, Range
from tests.unit.cel.compiling import DYNAMIC, STORED_1_37, compiled

D = 'device.attributes["d"]'


@pytest.mark.parametrize(
    ("source", "cost"),
    [
        ("true", (0, 0)),
        ("1 + 2 == 3", (2, 2)),
        ("[1, 2] == []", (20, 20)),
        ("[10, 20][dyn(1.5)]", (12, 12)),
        (f"{D}.x", (4, 4)),
        (f"{D}.x == 1", (5, 5)),
        (f"has({D}.x) && {D}.x == 'a'", (3, 8)),
        ("device.driver == 'gpu.example.com'", (3, 4)),
        ("device.allowMultipleAllocations == true", (3, 3)),
        ("1 in [1, 2, 3]", (13, 13)),
        (f"{D}.x.includes(1)", (4, 52)),
        ('[b"b", b"a"].max()', (12, 3689348814741910540)),
        ('optional.of("a").value().size()', (3, 3)),
        ("lists.range(100).all(x, x >= 0)", (412, 612)),
        ("[3, 1, 2].sort() == [1, 2, 3]", (50, 50)),
        ('["a", "b"].join("-")', (11, 1844674407370955274)),
        ("type(1) == int", (3, 1844674407370955266)),
        ('device.capacity["dra.example.com"].exists(k, v, k == "memory" && v.isGreaterThan(quantity("1Gi")))',
         (4, 260)),
        ("cel.bind(x, 'abc', x + x == 'abcabc')", (14, 14)),
        ("'abc'.replace('b', 'xyz').size() > 0", (3, 3)),
        ("cel.bind(a, device.attributes['d'], a.exists(k, a.x == k))", (15, 463)),
        ('format.uri().validate("http://x")', (33, 33)),
    ],
)  # fmt: skip
def test_estimates(source: str, cost: Range) -> None:
    assert estimate(compiled(source, DYNAMIC)) == cost


@pytest.mark.parametrize(
    ("source", "cost"),
    [
        # An attribute has up to 64 bytes or 48 values; other lists are not limited.
        (f"{D}.x.includes(1)", 68),
        ("[1, 2].includes(1)", 12),
        ('["a"].includes("a")', 1844674407370955275),
        (f'{D}.?x.orValue([]).includes("a")', MAX),
        (f"{D}.?x.orValue([]).exists(v, v == 1)", MAX),
        (f'matches({D}.x, "a+b")', 11),
        (f'{D}.x.matches("a+b")', 11),
    ],
)
def test_highest_estimates_of_1_37(source: str, cost: int) -> None:
    assert estimate(compiled(source, STORED_1_37))[1] == cost


def test_a_global_match_is_free_of_charge_until_1_36() -> None:
    assert estimate(compiled(f'matches({D}.x, "a+b")', DYNAMIC)) == (5, 5)


def test_nested_loops_saturate_the_estimate() -> None:
    inner = "[1, 2].all(x, true)"
    for _ in range(20):
        inner = f"lists.range(1000000).all(y, {inner})"
    assert estimate(compiled(inner))[1] == MAX


numbers = st.integers(0, MAX) | st.sampled_from([0, 1, MAX, MAX - 1, 2**63])
spans = st.tuples(numbers, numbers).map(lambda t: (min(t), max(t)))


@given(spans, spans)
def test_range_arithmetic_saturates_and_keeps_order(a: Range, b: Range) -> None:
    for result in (ranges.add(a, b), ranges.multiply(a, b), ranges.scale(a, 0.1), ranges.scale(a, 2.1)):
        assert 0 <= result[0] <= result[1] <= MAX
    assert ranges.add(a, b) == ranges.add(b, a)
    low, high = ranges.union(a, b)
    assert low == min(a[0], b[0])
    assert high == max(a[1], b[1])


@given(numbers, st.integers(1, MAX))
def test_division_rounds_up_in_doubles(n: int, d: int) -> None:
    assert 0 <= ranges.ceil_div(n, d) <= MAX
