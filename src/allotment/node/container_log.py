"""A container's log: the last lines with timestamps, and following."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final, NamedTuple

_MOST_LINES: Final = 2_000
_LONGEST_LINE: Final = 16 * 1024


class LogLine(NamedTuple):
    """A line without its newline; ``number`` counts all lines printed so far."""

    number: int
    moment: datetime
    text: bytes


class ContainerLog:
    """The log of one run of a container. Old lines are dropped, which bounds its memory."""

    def __init__(self) -> None:
        self._lines: deque[LogLine] = deque(maxlen=_MOST_LINES)
        self._number = 0
        self._rest = b""
        self._more = asyncio.Event()
        self.closed = False
        #: Of a closed log: whether its last line is complete.
        self.ends_with_newline = True

    def write(self, data: bytes, moment: datetime) -> None:
        """Add output; a line is added when its newline arrives."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for text in lines:
            self._add(text, moment)
        if len(self._rest) > _LONGEST_LINE:
            self._add(self._rest, moment)
            self._rest = b""
        self._wake()

    def close(self, moment: datetime) -> None:
        """Add the unfinished last line and end all followers."""
        self.ends_with_newline = not self._rest
        if self._rest:
            self._add(self._rest, moment)
            self._rest = b""
        self.closed = True
        self._wake()

    @property
    def number(self) -> int:
        """The number of the last line."""
        return self._number

    def lines(self, last: int | None = None) -> list[LogLine]:
        """All kept lines, or only the last ``last``."""
        known = list(self._lines)
        return known if last is None else known[len(known) - min(last, len(known)) :]

    async def follow(self, after: int) -> AsyncIterator[list[LogLine]]:
        """Yield lines with numbers above ``after`` in batches, until the log is closed."""
        while True:
            more = self._more
            found = [line for line in self._lines if line.number > after]
            if found:
                after = found[-1].number
                yield found
            elif self.closed:
                return
            else:
                await more.wait()

    def _add(self, text: bytes, moment: datetime) -> None:
        self._number += 1
        self._lines.append(LogLine(self._number, moment, text[:_LONGEST_LINE]))

    def _wake(self) -> None:
        self._more.set()
        self._more = asyncio.Event()
