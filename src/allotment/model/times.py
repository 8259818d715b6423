"""Parses and formats times as Kubernetes does: RFC 3339 input, UTC output, whole seconds or microseconds.

Go's parser processes the text element by element and reports the first one that is missing or out of range; the
messages are Go's. A fraction of a second is accepted and dropped even if the layout has none.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from allotment.model.quoting import quote

SECONDS: Final = "2006-01-02T15:04:05Z07:00"
MICROSECONDS: Final = "2006-01-02T15:04:05.000000Z07:00"


class TimeError(ValueError):
    """Raised if text is not a time; the message is Go's."""


class _Element(NamedTuple):
    """One element of the layout: its text in the layout, its pattern, and its name and range."""

    layout: str
    pattern: re.Pattern[str]
    name: str = ""
    minimum: int = 0
    maximum: int = 9999


def _two_digits(layout: str, name: str, minimum: int, maximum: int) -> _Element:
    return _Element(layout, re.compile("[0-9]{2}", re.ASCII), name, minimum, maximum)


def _literal(text: str) -> _Element:
    return _Element(text, re.compile(re.escape(text)))


_ELEMENTS: Final = (
    _Element("2006", re.compile("[0-9]{4}", re.ASCII), "year"), _literal("-"),
    _two_digits("01", "month", 1, 12), _literal("-"), _two_digits("02", "day", 0, 99), _literal("T"),
    _two_digits("15", "hour", 0, 23), _literal(":"), _two_digits("04", "minute", 0, 59), _literal(":"),
    _two_digits("05", "second", 0, 59),
)  # fmt: skip
_FRACTION: Final = re.compile("[.,][0-9]+", re.ASCII)
_MICRO: Final = re.compile(r"\.[0-9]{6}(?![0-9])", re.ASCII)
_ZONE: Final = re.compile("Z|([+-])([0-9]{2}):([0-9]{2})", re.ASCII)
_CANONICAL: Final = re.compile("[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]Z", re.ASCII)


@lru_cache(maxsize=4096)  # writes of an object repeat the same times
def canonical(text: str, layout: str = SECONDS) -> str | None:
    """A time in Kubernetes' canonical form; ``None`` for the zero time, which counts as unset.

    Raises TimeError.

    >>> canonical("2026-01-01T01:00:00.9+01:00")
    '2026-01-01T00:00:00Z'
    >>> canonical("2026-02-30T00:00:00Z")
    Traceback (most recent call last):
    allotment.model.times.TimeError: parsing time "2026-02-30T00:00:00Z": day out of range
    """
    values, rest = _fields(text, layout)
    fraction = (_MICRO if layout == MICROSECONDS else _FRACTION).match(rest)
    if fraction is None and layout == MICROSECONDS:
        raise _missing(text, layout, rest, ".000000")
    microseconds = int(fraction[0][1:7].ljust(6, "0")) if fraction else 0
    rest = rest[fraction.end() :] if fraction else rest
    zone = _ZONE.match(rest)
    if zone is None:
        raise _missing(text, layout, rest, "Z07:00")
    if rest[zone.end() :]:
        raise TimeError(f"parsing time {quote(text)}: extra text: {quote(rest[zone.end() :])}")
    offset = _offset(zone, text)
    year, month, day, hour, minute, second = values
    if not 1 <= day <= (monthrange(year, month)[1] if year else 31):
        raise _out_of_range(text, "day")
    if _CANONICAL.fullmatch(text) and layout == SECONDS:
        return None if text == "0001-01-01T00:00:00Z" else text
    try:
        utc = datetime(year, month, day, hour, minute, second, microseconds, UTC) - offset
    except (ValueError, OverflowError):
        return text  # outside Python's range of years
    date = f"{utc.year:04}-{utc:%m-%dT%H:%M:%S}"
    return f"{date}.{utc.microsecond:06}Z" if layout == MICROSECONDS else f"{date}Z"


def _fields(text: str, layout: str) -> tuple[list[int], str]:
    values, offset = [], 0
    for element in _ELEMENTS:
        match = element.pattern.match(text, offset)
        if match is None:
            raise _missing(text, layout, text[offset:], element.layout)
        offset = match.end()
        if element.name:
            value = int(match[0])
            if not element.minimum <= value <= element.maximum:
                raise _out_of_range(text, element.name)
            values.append(value)
    return values, text[offset:]


def _offset(zone: re.Match[str], text: str) -> timedelta:
    if zone[1] is None:
        return timedelta()
    hours, minutes = int(zone[2]), int(zone[3])
    if hours > 24:
        raise _out_of_range(text, "time zone offset hour")
    if minutes > 60:
        raise _out_of_range(text, "time zone offset minute")
    offset = timedelta(hours=hours, minutes=minutes)
    return offset if zone[1] == "+" else -offset


def _missing(text: str, layout: str, rest: str, element: str) -> TimeError:
    return TimeError(f"parsing time {quote(text)} as {quote(layout)}: cannot parse {quote(rest)} as {quote(element)}")


def _out_of_range(text: str, element: str) -> TimeError:
    return TimeError(f"parsing time {quote(text)}: {element} out of range")
