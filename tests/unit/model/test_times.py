from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.model.times import MICROSECONDS, TimeError, canonical


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00.999Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00,5Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00+24:00", "2025-12-31T00:00:00Z"),
        ("0001-01-01T00:00:00Z", None),
    ],
)
def test_canonical_form(text: str, expected: str | None) -> None:
    assert canonical(text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2026-02-31T00:00:00Z", ": day out of range"),
        ("2026-13-01T00:00:00Z", ": month out of range"),
        ("2026-01-01T24:00:00Z", ": hour out of range"),
        ("2026-01-01T00:00:60Z", ": second out of range"),
        ("2026-01-01T00:00:00+25:00", ": time zone offset hour out of range"),
        ("2026-1-1T00:00:00Z", ' as "2006-01-02T15:04:05Z07:00": cannot parse "1-1T00:00:00Z" as "01"'),
        ("2026-01-01t00:00:00z", ' as "2006-01-02T15:04:05Z07:00": cannot parse "t00:00:00z" as "T"'),
        ("", ' as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006"'),
        ("2026-01-01T00:00:00Zx", ': extra text: "x"'),
    ],
)
def test_errors_have_the_message_of_go(text: str, problem: str) -> None:
    with pytest.raises(TimeError) as error:
        canonical(text)
    assert str(error.value) == f'parsing time "{text}"{problem}'


def test_microseconds() -> None:
    assert canonical("2026-01-01T01:00:00.000001+01:00", MICROSECONDS) == "2026-01-01T00:00:00.000001Z"
    with pytest.raises(TimeError, match=r'cannot parse "Z" as ".000000"'):
        canonical("2026-01-01T01:00:00Z", MICROSECONDS)


@given(st.datetimes(min_value=datetime(1, 1, 2), timezones=st.just(UTC)))  # noqa: DTZ001
def test_canonical_times_are_unchanged(moment: datetime) -> None:
    text = f"{moment.year:04}-{moment:%m-%dT%H:%M:%S}Z"
    assert canonical(text) == text


@given(st.text() | st.from_regex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}([.,][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})"))
def test_any_text_is_a_time_or_an_error(text: str) -> None:
    for layout in ("2006-01-02T15:04:05Z07:00", MICROSECONDS):
        try:
            once = canonical(text, layout)
        except TimeError:
            continue
        assert once is None or canonical(once, layout) == once
