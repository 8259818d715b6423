"""Cron schedules: five fields or a name such as ``@hourly``, evaluated in a time zone.

As in cron, a day matches either of the two day fields when both are restricted. A time that a clock change skips is
omitted; one that occurs twice counts once.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NamedTuple

_NAMED: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTH_NAMES: Final = {name: number for number, name in enumerate(_MONTHS, 1)}
_DAY_NAMES: Final = {name: number for number, name in enumerate(_DAYS)}
#: The longest interval of any schedule that can match (29 February on a given weekday).
_HORIZON: Final = timedelta(days=366 * 29)


class ScheduleError(ValueError):
    """Raised for a text that is not a valid schedule."""


class Schedule(NamedTuple):
    """A parsed schedule; ``every`` is set for ``@every 90s`` and overrides the other fields."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool
    every: timedelta | None = None

    def after(self, moment: datetime, zone: tzinfo = UTC) -> datetime | None:
        """The first scheduled time strictly after a moment, in UTC; None if there is none.

        >>> parse("30 2 * * *").after(datetime(2026, 1, 1, 3, tzinfo=UTC))
        datetime.datetime(2026, 1, 2, 2, 30, tzinfo=datetime.timezone.utc)
        """
        if self.every is not None:
            return moment.replace(microsecond=0) + self.every
        local = moment.astimezone(zone).replace(tzinfo=None, second=0, microsecond=0) + timedelta(minutes=1)
        last = local + _HORIZON
        while local < last:
            if local.month not in self.months:
                following = local.replace(day=1, hour=0, minute=0) + timedelta(days=32)
                local = following.replace(day=1)
            elif not self._on(local):
                local = local.replace(hour=0, minute=0) + timedelta(days=1)
            elif local.hour not in self.hours:
                local = local.replace(minute=0) + timedelta(hours=1)
            elif local.minute not in self.minutes:
                local += timedelta(minutes=1)
            else:
                found = local.replace(tzinfo=zone).astimezone(UTC)
                exists = found.astimezone(zone).replace(tzinfo=None) == local
                if exists and found > moment:
                    return found
                local += timedelta(minutes=1)
        return None

    def _on(self, local: datetime) -> bool:
        day, weekday = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return day and weekday
        return day or weekday


def parse(text: str) -> Schedule:
    """Parse a schedule. Raises ScheduleError.

    >>> parse("*/15 9-17 * * mon-fri").after(datetime(2026, 1, 2, 17, 50, tzinfo=UTC))
    datetime.datetime(2026, 1, 5, 9, 0, tzinfo=datetime.timezone.utc)
    """
    text = text.strip()
    if text.startswith("@every "):
        every = frozenset[int]()
        return Schedule(every, every, every, every, every, True, True, _duration(text[len("@every ") :].strip()))
    fields = _NAMED.get(text, text).split()
    if text.startswith("@") and text not in _NAMED:
        raise ScheduleError(f"unrecognized descriptor: {text}")
    if len(fields) != 5:
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: {text}")
    minute, hour, day, month, weekday = fields
    weekdays = _field(weekday, 0, 7, _DAY_NAMES)
    return Schedule(
        _field(minute, 0, 59),
        _field(hour, 0, 23),
        _field(day, 1, 31),
        _field(month, 1, 12, _MONTH_NAMES),
        frozenset(number % 7 for number in weekdays),
        day.startswith(("*", "?")),
        weekday.startswith(("*", "?")),
    )


def _field(text: str, least: int, most: int, names: dict[str, int] | None = None) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        step = _number(step_text, {}) if slash else 1
        if step < 1:
            raise ScheduleError(f"step of range should be a positive number: {part}")
        if span in ("*", "?"):
            first, last = least, most if most != 7 else 6
        else:
            start, dash, end = span.partition("-")
            first = _number(start, names or {})
            last = _number(end, names or {}) if dash else most if slash else first
        if first < least or last > most:
            raise ScheduleError(f"{part}: expected numbers from {least} to {most}")
        if first > last:
            raise ScheduleError(f"beginning of range ({first}) beyond end of range ({last}): {part}")
        found.update(range(first, last + 1, step))
    return frozenset(found)


def _number(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    if not text.isdecimal():
        raise ScheduleError(f"failed to parse int from {text!r}")
    return int(text)


def _duration(text: str) -> timedelta:
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    seconds, number = 0.0, ""
    for character in text:
        if character in units and number:
            seconds, number = seconds + float(number) * units[character], ""
        elif character.isdecimal() or (character == "." and "." not in number):
            number += character
        else:
            raise ScheduleError(f"failed to parse duration @every {text}")
    if number or not seconds:
        raise ScheduleError(f"failed to parse duration @every {text}")
    return timedelta(seconds=max(round(seconds), 1))
