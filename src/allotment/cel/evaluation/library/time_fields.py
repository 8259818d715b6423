"""The fields of timestamps and durations: ``getHours()``, ``getFullYear("Europe/Paris")``.

:mod:`zoneinfo` reads named time zones from the system's zone files or the tzdata package.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from allotment.cel.evaluation.timestamps import (
    FIRST_SECOND,
    INT64_MAX,
    INT64_MIN,
    LAST_SECOND,
    SECOND,
    date_from_days,
    days_since_epoch,
)
from allotment.cel.evaluation.values import CelError, Duration, Timestamp, Value
from allotment.model.quoting import quote


@lru_cache(maxsize=256)
def _zone(name: str) -> tzinfo:
    if name in ("", "UTC", "Local"):
        return UTC
    if ".." in name or name[0] in "/\\":
        raise CelError("time: invalid location name")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CelError(f"unknown time zone {name}") from None


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _offset(seconds: int, zone: str) -> int:
    """The UTC offset in seconds, at an instant, of a zone given by name or as ``[+-]hh:mm``."""
    hours_text, colon, minutes_text = zone.partition(":")
    if colon:
        hours, minutes = _atoi(hours_text), _atoi(minutes_text)
        return (hours * 60 + (-minutes if zone[0] == "-" else minutes)) * 60
    rules = _zone(zone)
    # Clamped so that the local time stays within the range of datetime; zone rules do not change near its ends.
    moment = min(max(seconds, FIRST_SECOND + 86400 * 2), LAST_SECOND - 86400 * 2)
    offset = (_EPOCH + timedelta(seconds=moment)).astimezone(rules).utcoffset()
    return int(offset.total_seconds()) if offset is not None else 0


def _atoi(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        raise CelError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    if len(text) > 20 or not INT64_MIN <= int(text) <= INT64_MAX:
        raise CelError(f"strconv.Atoi: parsing {quote(text)}: value out of range")
    return int(text)


def _year_day(days: int) -> int:
    year, _, _ = date_from_days(days)
    return days - days_since_epoch(year, 1, 1)


_FIELDS: Final[dict[str, Callable[[int, int, int], int]]] = {
    "getFullYear": lambda days, second, nano: date_from_days(days)[0],
    "getMonth": lambda days, second, nano: date_from_days(days)[1] - 1,
    "getDayOfYear": lambda days, second, nano: _year_day(days),
    "getDayOfMonth": lambda days, second, nano: date_from_days(days)[2] - 1,
    "getDate": lambda days, second, nano: date_from_days(days)[2],
    "getDayOfWeek": lambda days, second, nano: (days + 4) % 7,
    "getHours": lambda days, second, nano: second // 3600,
    "getMinutes": lambda days, second, nano: second // 60 % 60,
    "getSeconds": lambda days, second, nano: second % 60,
    "getMilliseconds": lambda days, second, nano: nano // 10**6,
}


def _field(name: str) -> Callable[..., int]:
    compute = _FIELDS[name]

    def field(value: Timestamp, zone: str = "UTC") -> int:
        seconds, nanos = divmod(value.ns, SECOND)
        days, of_day = divmod(seconds + _offset(seconds, zone), 86400)
        return compute(days, of_day, nanos)

    return field


def _total(unit: int) -> Callable[[Duration], int]:
    def total(value: Duration) -> int:
        whole, rest = divmod(abs(value.ns), unit)
        # Go adds the two parts as doubles and truncates the sum.
        return int(float(whole) + float(rest) / float(unit)) * (-1 if value.ns < 0 else 1)

    return total


def _milliseconds(value: Duration) -> int:
    return abs(value.ns) // 10**6 * (-1 if value.ns < 0 else 1)


_TIMESTAMP_IDS: Final = {
    "getFullYear": "year", "getMonth": "month", "getDayOfYear": "day_of_year", "getDayOfMonth": "day_of_month",
    "getDate": "day_of_month_1_based", "getDayOfWeek": "day_of_week", "getHours": "hours",
    "getMinutes": "minutes", "getSeconds": "seconds", "getMilliseconds": "milliseconds",
}  # fmt: skip

OVERLOADS: Final[dict[str, Callable[..., Value]]] = {
    **{f"timestamp_to_{part}": _field(name) for name, part in _TIMESTAMP_IDS.items()},
    **{f"timestamp_to_{part}_with_tz": _field(name) for name, part in _TIMESTAMP_IDS.items()},
    "timestamp_to_seconds_tz": _field("getSeconds"),
    "duration_to_hours": _total(3600 * SECOND),
    "duration_to_minutes": _total(60 * SECOND),
    "duration_to_seconds": _total(SECOND),
    "duration_to_milliseconds": _milliseconds,
}
