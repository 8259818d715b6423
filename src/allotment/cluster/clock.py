"""A clock whose timestamps are real and whose waits run ``speed`` times as fast.

Timestamps are real, so that every client shows correct ages; durations in objects (``tolerationSeconds``,
``ttlSecondsAfterFinished``) shrink with the speed. Use :meth:`Clock.left` instead of subtracting timestamps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Timer(Protocol):
    """A scheduled call that can be cancelled."""

    def cancel(self) -> None:
        """Cancel the call; no effect if it has run."""
        ...


class Clock:
    """The clock of this machine. Tests use their own with the same methods."""

    def __init__(self, speed: float = 1.0) -> None:
        if not speed > 0:
            raise ValueError(f"speed: expected a positive number, found {speed}")
        self.speed = speed

    def moment(self) -> datetime:
        """Now, UTC."""
        return datetime.now(UTC)

    def now(self) -> str:
        """The current time as objects store it, in whole seconds.

        >>> len(Clock().now())
        20
        """
        return stamp(self.moment())

    def now_micro(self) -> str:
        """The current time with microseconds, as in Leases and newer Events."""
        return stamp_micro(self.moment())

    def seconds(self) -> float:
        """Monotonic seconds, scaled by the speed."""
        return asyncio.get_running_loop().time() * self.speed

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds at this clock's speed."""
        await asyncio.sleep(seconds / self.speed if seconds > 0 else 0)

    def later(self, seconds: float, act: Callable[[], None]) -> Timer:
        """Call a function after some seconds at this clock's speed."""
        return asyncio.get_running_loop().call_later(max(seconds, 0) / self.speed, act)

    def left(self, start: str | datetime, seconds: float = 0) -> float:
        """Seconds of this clock until ``seconds`` have passed since ``start``; negative if they have passed."""
        started = parse(start) if isinstance(start, str) else start
        return seconds - (self.moment() - started).total_seconds() * self.speed


def stamp(moment: datetime) -> str:
    """RFC 3339, whole seconds."""
    return moment.isoformat()[:19] + "Z"


def stamp_micro(moment: datetime) -> str:
    """RFC 3339 with microseconds."""
    return moment.isoformat(timespec="microseconds")[:26] + "Z"


def parse(text: str) -> datetime:
    """Parse a timestamp; without an offset it is UTC.

    >>> parse("2026-01-01T01:00:00+01:00")
    datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)
    """
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
