"""How long ago something was, as tables say it: two units while that matters, one when it does not."""

from __future__ import annotations

from datetime import datetime
from typing import Final

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY

#: Until when a form is used: its two units, and whether the second is told.
_FORMS: Final = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)


def duration(seconds: float) -> str:
    """A span of time.

    >>> [duration(s) for s in (5, 119, 120, 185, 3 * 3600, 30000, 8 * 86400, 3 * 31536000)]
    ['5s', '119s', '2m', '3m5s', '3h', '8h', '8d', '3y']
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    for limit, unit, name, smaller, smaller_name in _FORMS:
        if whole < limit:
            rest = whole % unit // smaller if smaller else 0
            return f"{whole // unit}{name}" + (f"{rest}{smaller_name}" if rest else "")
    return f"{whole // _YEAR}y"


def age(then: str, now: str) -> str:
    """How long before ``now`` a time was; both as objects carry them.

    >>> age("2026-01-01T00:00:00Z", "2026-01-01T00:05:30Z")
    '5m30s'
    """
    if not then:
        return "<unknown>"
    try:
        return duration((datetime.fromisoformat(now) - datetime.fromisoformat(then)).total_seconds())
    except ValueError:
        return "<invalid>"
