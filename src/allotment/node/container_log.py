"""What a container printed: the last lines, each with its moment, and a way to follow."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final, NamedTuple

_MOST_LINES: Final = 2_000
_LONGEST_LINE: Final = 16 * 1024


class Line(NamedTuple):
    """A line without its end; ``number`` counts from the first that was ever printed."""

    number: int
    moment: datetime
    text: bytes


class Journal:
    """Lines of one run of a container. Old ones are forgotten, so that a chatty container costs little."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque(maxlen=_MOST_LINES)
        self._number = 0
        self._rest = b""
        self._more = asyncio.Event()
        self.closed = False

    def write(self, data: bytes, moment: datetime) -> None:
        """Add output; a line is one when it ends."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for text in lines:
            self._add(text, moment)
        if len(self._rest) > _LONGEST_LINE:
            self._add(self._rest, moment)
            self._rest = b""
        self._wake()

    def close(self, moment: datetime) -> None:
        """Nothing more will come."""
        if self._rest:
            self._add(self._rest, moment)
            self._rest = b""
        self.closed = True
        self._wake()

    @property
    def number(self) -> int:
        """The number of the last line."""
        return self._number

    def lines(self, last: int | None = None) -> list[Line]:
        """All known lines, or the last ones."""
        known = list(self._lines)
        return known if last is None else known[len(known) - min(last, len(known)) :]

    async def follow(self, after: int) -> AsyncIterator[list[Line]]:
        """Lines with greater numbers, in bunches as they come, until the journal is closed."""
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
        self._lines.append(Line(self._number, moment, text[:_LONGEST_LINE]))

    def _wake(self) -> None:
        self._more.set()
        self._more = asyncio.Event()
