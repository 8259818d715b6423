"""Time as programs see it: stamps are the wall's, waits run ``speed`` times as fast.

Stamps stay true so that ages read right in every client; durations that objects ask for (``tolerationSeconds``,
``ttlSecondsAfterFinished``) shrink with the speed. :meth:`Clock.left` joins the two, so that nobody subtracts stamps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Timer(Protocol):
    """Something that will happen, and may be called off."""

    def cancel(self) -> None:
        """Call it off; too late is no error."""
        ...


class Clock:
    """The running machine's clock. Tests have their own with the same methods."""

    def __init__(self, speed: float = 1.0) -> None:
        if not speed > 0:
            raise ValueError(f"speed: expected a positive number, found {speed}")
        self.speed = speed

    def moment(self) -> datetime:
        """Now, UTC."""
        return datetime.now(UTC)

    def now(self) -> str:
        """Now as objects write it: whole seconds.

        >>> len(Clock().now())
        20
        """
        return stamp(self.moment())

    def now_micro(self) -> str:
        """Now with microseconds, as Leases and newer Events write it."""
        return stamp_micro(self.moment())

    def seconds(self) -> float:
        """Seconds on a scale of its own that never jumps; runs with the speed."""
        return asyncio.get_running_loop().time() * self.speed

    async def sleep(self, seconds: float) -> None:
        """Wait that long, at this clock's speed."""
        await asyncio.sleep(seconds / self.speed if seconds > 0 else 0)

    def later(self, seconds: float, act: Callable[[], None]) -> Timer:
        """Do something after that long, at this clock's speed."""
        return asyncio.get_running_loop().call_later(max(seconds, 0) / self.speed, act)

    def left(self, start: str | datetime, seconds: float = 0) -> float:
        """How long to wait, at this clock's speed, until ``seconds`` have gone by since ``start``; negative: over."""
        began = parse(start) if isinstance(start, str) else start
        return seconds - (self.moment() - began).total_seconds() * self.speed


def stamp(moment: datetime) -> str:
    """RFC 3339, whole seconds."""
    return moment.isoformat()[:19] + "Z"


def stamp_micro(moment: datetime) -> str:
    """RFC 3339 with microseconds."""
    return moment.isoformat(timespec="microseconds")[:26] + "Z"


def parse(text: str) -> datetime:
    """The moment that a stamp tells.

    >>> parse("2026-01-01T01:00:00+01:00")
    datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)
    """
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
