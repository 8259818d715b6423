"""Date ranges of prices, whose dates are days or only years."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_DAY: Final = len("2026-08-03")


def date_range(dates: Iterable[str]) -> str:
    """Return a date range as text; empty if no date is known. Dates without a day are listed separately.

    >>> date_range(["2026-08-03", "2026", "", "2026-06-18"])
    '2026-06-18 to 2026-08-03; some prices from an unknown day in 2026'
    >>> date_range(["2026"])
    'an unknown day in 2026'
    """
    known = sorted({date for date in dates if date})
    days = [date for date in known if len(date) == _DAY]
    vague = [date for date in known if len(date) < _DAY]
    span = "" if not days else days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    rest = f"an unknown day in {' or '.join(vague)}" if vague else ""
    return f"{span}; some prices from {rest}" if span and rest else span or rest
