"""Durations in Go's format (``90s``, ``1m30s``, ``500ms``), and deadlines."""

from __future__ import annotations

import re
import time

from allotment.cli.output.errors import Failure
from allotment.errors import InputError

_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """Return a duration in seconds; a bare number is in seconds.

    >>> seconds("1m30s"), seconds("-1s"), seconds("20")
    (90.0, -1.0, 20.0)
    """
    sign, rest = (-1.0, text[1:]) if text.startswith("-") else (1.0, text)
    if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", rest):
        return sign * float(rest)
    parts = _PART.findall(rest)
    if not parts or "".join(number + unit for number, unit in parts) != rest:
        raise Failure(f"error: invalid duration {text!r}: expected a duration such as 30s or 1m30s")
    return sign * sum(float(number) * _SECONDS[unit] for number, unit in parts)


def duration(option: str, text: str) -> float:
    """Parse an option that is a duration, in seconds. Raises InputError."""
    try:
        found = seconds(text)
    except Failure as error:
        raise InputError(f"{option}: {str(error).removeprefix('error: ')}") from None
    if found < 0:
        raise InputError(f"{option}: expected a duration >= 0, found {text}")
    return found


class Deadline:
    """A deadline; 0 seconds or less: no limit."""

    def __init__(self, limit: float) -> None:
        self._end = time.monotonic() + limit if limit > 0 else None

    def left(self) -> float | None:
        """Return the remaining seconds, or None without a limit; for ``asyncio.timeout``."""
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)
