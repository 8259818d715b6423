"""Parsing and formatting of timestamps and durations as in Go."""

from __future__ import annotations

import re
from typing import Final

from allotment.cel.evaluation.float_format import format_shortest_f
from allotment.cel.evaluation.values import CelError, Duration, Timestamp

SECOND: Final = 10**9
#: Unix seconds of 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
FIRST_SECOND: Final = -62135596800
LAST_SECOND: Final = 253402300799
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_UNITS: Final = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND,
}  # fmt: skip
_COMPONENT: Final = re.compile(r"(\d*)(?:(\.)(\d*))?([^\d.]*)", re.ASCII)


# --- timestamps --------------------------------------------------------------------------------------------------


def timestamp(ns: int, offset: int = 0) -> Timestamp:
    """A timestamp. Raises CelError outside the years 1 to 9999."""
    if not FIRST_SECOND <= ns // SECOND <= LAST_SECOND:
        raise CelError("timestamp overflow")
    return Timestamp(ns, offset)


def parse_timestamp(text: str) -> Timestamp | None:
    """Parses RFC 3339 as Go does, including one-digit hours and comma fractions; None for an invalid text."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found.group(i)) for i in range(1, 7))
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS[month - 1] or hour > 23 or minute > 59 or second > 59:
        return None
    if month == 2 and day == 29 and (year % 4 or (year % 100 == 0 and year % 400)):
        return None
    offset = 0
    if found.group(8):
        hours, minutes = int(found.group(9)), int(found.group(10))
        if hours > 24 or minutes > 60:
            return None
        offset = (hours * 60 + minutes) * 60 * (-1 if found.group(8) == "-" else 1)
    fraction = int((found.group(7) or "0")[:9].ljust(9, "0"))
    seconds = days_since_epoch(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - offset
    return timestamp(seconds * SECOND + fraction, offset)


def days_since_epoch(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a proleptic Gregorian date of any year."""
    y = year - (month <= 2)
    era, of_era = divmod(y, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def date_from_days(days: int) -> tuple[int, int, int]:
    """Year, month, day of a number of days since 1970-01-01."""
    era, of_era = divmod(days + 719468, 146097)
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + era * 400 + (month <= 2), month, day


def format_timestamp(value: Timestamp) -> str:
    """RFC 3339 in the timestamp's original offset, with as many fraction digits as needed."""
    seconds, nanos = divmod(value.ns, SECOND)
    days, of_day = divmod(seconds + value.offset, 86400)
    year, month, day = date_from_days(days)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    zone = "Z"
    if value.offset:
        minutes = abs(value.offset) // 60
        zone = f"{'-' if value.offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    clock = f"{of_day // 3600:02d}:{of_day // 60 % 60:02d}:{of_day % 60:02d}"
    return f"{year:04d}-{month:02d}-{day:02d}T{clock}{fraction}{zone}"


def go_format_timestamp(value: Timestamp) -> str:
    """A timestamp as in Go's error texts."""
    written = format_timestamp(value)
    date, _, rest = written.partition("T")
    minutes = abs(value.offset) // 60
    sign = "-" if value.offset < 0 else "+"
    name = "UTC" if not value.offset else f"{sign}{minutes // 60:02d}{minutes % 60:02d}"
    clock = re.split(r"[Z+-]", rest)[0]
    return f"{date} {clock} {sign}{minutes // 60:02d}{minutes % 60:02d} {name}"


# --- durations ---------------------------------------------------------------------------------------------------


def duration(ns: int) -> Duration:
    """A duration. Raises CelError outside the range of int64 nanoseconds."""
    if not INT64_MIN <= ns <= INT64_MAX:
        raise CelError("integer overflow")
    return Duration(ns)


def parse_duration(text: str) -> Duration | None:
    """Go's ``ParseDuration``; None for an invalid text."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return Duration(0)
    if not rest:
        return None
    total = at = 0
    while at < len(rest):
        part = _COMPONENT.match(rest, at)
        if part is None or part.end() == at:
            return None
        whole, point, fraction, unit_text = part.groups()
        unit = _UNITS.get(unit_text)
        if unit is None or not (whole or fraction) or (not whole and not point):
            return None
        if len(whole.lstrip("0")) > 19:
            return None
        total += int(whole or 0) * unit + _fraction(fraction or "", unit)
        if total > 2**63:
            return None
        at = part.end()
    if text[0] == "-":
        return Duration(-total)
    return None if total == 2**63 else Duration(total)


def _fraction(digits: str, unit: int) -> int:
    """The nanoseconds of a decimal fraction of a unit, computed in doubles as Go does."""
    value = 0
    scale = 1.0
    for digit in digits:
        if value > INT64_MAX // 10:
            break
        value = value * 10 + int(digit)
        scale *= 10
    return int(float(value) * (float(unit) / scale)) if value else 0


def total_seconds(value: Duration) -> float:
    seconds = abs(value.ns) // SECOND
    nanos = abs(value.ns) % SECOND
    return (float(seconds) + float(nanos) / 1e9) * (-1 if value.ns < 0 else 1)


def format_duration(value: Duration) -> str:
    """``string(duration)``: seconds, like ``1.5s``."""
    return format_shortest_f(total_seconds(value)) + "s"


def go_format_duration(ns: int) -> str:
    """A duration as in Go's error texts: ``1h30m0s``, ``1.5ms``."""
    sign = "-" if ns < 0 else ""
    ns = abs(ns)
    if ns < SECOND:
        if not ns:
            return "0s"
        for unit, size in (("ns", 1), ("µs", 10**3), ("ms", 10**6)):
            if ns < size * 1000:
                return f"{sign}{format_shortest_f(ns / size)}{unit}"
    minutes, rest = divmod(ns, 60 * SECOND)
    seconds, nanos = divmod(rest, SECOND)
    text = f"{seconds}{f'.{nanos:09d}'.rstrip('0') if nanos else ''}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"
    return sign + text
