from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.evaluation import timestamps
from allotment.cel.evaluation.values import CelError, Timestamp
from tests.unit.cel.evaluating import outcome

FIRST, LAST = timestamps.FIRST_SECOND * timestamps.SECOND, timestamps.LAST_SECOND * timestamps.SECOND


@pytest.mark.parametrize(
    ("text", "written"),
    # Recorded from Go's time.Parse and Format.
    [
        ("2024-01-01T0:00:00Z", "2024-01-01T00:00:00Z"),
        ("2024-01-01T00:00:00,1Z", "2024-01-01T00:00:00.1Z"),
        ("2024-01-01T00:00:00.1234567891Z", "2024-01-01T00:00:00.123456789Z"),
        ("2024-01-01T00:00:00-00:00", "2024-01-01T00:00:00Z"),
        ("2024-01-01T00:00:00+24:00", "2024-01-01T00:00:00+24:00"),
        ("2024-01-01T00:00:00+01:60", "2024-01-01T00:00:00+02:00"),
        ("2024-02-29T13:14:15.678Z", "2024-02-29T13:14:15.678Z"),
        ("2024-01-01t00:00:00z", None),
        ("2024-01-01 00:00:00Z", None),
        ("2024-01-01T00:00:00", None),
        ("2023-02-29T00:00:00Z", None),
        ("2024-01-01T24:00:00Z", None),
        ("2024-01-01T23:59:60Z", None),
        ("2024-01-01T00:00:00.Z", None),
        ("2024-01-01T00:00:00+0100", None),
        ("2024-01-01T00:00:00+99:99", None),
        ("10000-01-01T00:00:00Z", None),
        ("2024-1-01T00:00:00Z", None),
    ],
)
def test_timestamps_are_parsed_as_in_go(text: str, written: str | None) -> None:
    found = timestamps.parse_timestamp(text)
    assert (None if found is None else timestamps.format_timestamp(found)) == written


def test_the_year_0_is_out_of_range() -> None:
    with pytest.raises(CelError, match="timestamp overflow"):
        timestamps.parse_timestamp("0000-01-01T00:00:00Z")


@given(st.integers(FIRST, LAST), st.integers(-23 * 60, 23 * 60))
def test_timestamps_round_trip(ns: int, minutes: int) -> None:
    local = ns // timestamps.SECOND + minutes * 60
    if timestamps.FIRST_SECOND <= local <= timestamps.LAST_SECOND:
        found = timestamps.parse_timestamp(timestamps.format_timestamp(Timestamp(ns, minutes * 60)))
        assert found is not None
        assert (found.ns, found.offset) == (ns, minutes * 60)


@pytest.mark.parametrize(
    ("text", "ns"),
    # Recorded from Go's time.ParseDuration.
    [
        ("1h30m", 5400 * 10**9),
        ("1.5h", 5400 * 10**9),
        ("+1s", 10**9),
        ("0", 0),
        ("-0", 0),
        ("1.s", 10**9),
        (".5s", 5 * 10**8),
        ("1µs", 1000),
        ("1μs", 1000),
        ("9223372036854775807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
        ("9223372036854775808ns", None),
        ("0.9999999999s", 999999999),
        ("1.123456789123456789123s", 1123456789),
        ("0.3333333333333333333h", 1200 * 10**9),
        ("1.0h0.5m", 3630 * 10**9),
        ("", None),
        ("1", None),
        ("s", None),
        ("1d", None),
        ("1h 30m", None),
        ("1..5s", None),
        ("+-1s", None),
        ("1e3s", None),
        (".s", None),
        ("-", None),
        ("1h-1m", None),
        ("99999999999999999999s", None),
    ],
)
def test_durations_are_parsed_as_in_go(text: str, ns: int | None) -> None:
    found = timestamps.parse_duration(text)
    assert (None if found is None else found.ns) == ns


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('timestamp("2024-02-29T13:14:15.678Z").getDayOfYear()', 59),
        ('timestamp("2024-02-29T03:14:15Z").getDate("America/New_York")', 28),
        ('timestamp("2024-02-29T13:14:15Z").getHours("-08:30")', 4),
        ('timestamp("2024-02-29T13:14:15Z").getHours("02:00")', 15),
        ('timestamp("2024-02-29T13:14:15Z").getDayOfWeek()', 4),
        ('timestamp("0001-01-01T00:00:00Z").getFullYear("-01:00")', 0),
        ('timestamp("2024-02-29T13:14:15Z").getHours("Nope/Zone")', "error: unknown time zone Nope/Zone"),
        ('timestamp("2024-02-29T13:14:15Z").getHours("../etc")', "error: time: invalid location name"),
        ('timestamp("2024-02-29T13:14:15Z").getHours("x:1")', 'error: strconv.Atoi: parsing "x": invalid syntax'),
        ('duration("-90s").getMinutes()', -1),
        ('duration("1.5s").getMilliseconds()', 1500),
        ('timestamp("9999-12-31T23:59:59Z") + duration("1s")', "error: timestamp overflow"),
        ('timestamp("9999-12-31T23:59:59Z") - timestamp("0001-01-01T00:00:00Z")', "error: integer overflow"),
        ('string(timestamp("2024-01-01T00:00:00+05:30"))', "2024-01-01T00:00:00+05:30"),
        ('string(duration("-1ms"))', "-0.001s"),
        ("duration(timestamp(0).getDate())", "error: type conversion error from 'int' to 'google.protobuf.Duration'"),
    ],
)
def test_fields_and_arithmetic(expression: str, expected: object) -> None:
    assert outcome(expression) == expected
