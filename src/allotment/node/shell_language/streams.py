"""The standard streams of a command, and the pipes between commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, NamedTuple

_MOST_PIECES: Final = 16

Write = Callable[[bytes], Awaitable[None]]
Read = Callable[[], Awaitable[bytes]]


async def nothing() -> bytes:
    """An input that is empty."""
    return b""


async def discard(data: bytes) -> None:
    """An output without a reader."""


class Input:
    """A standard input. Commands in sequence share it: what one leaves, the next reads."""

    def __init__(self, read: Read = nothing) -> None:
        self._read = read
        self._rest = b""
        self._ended = False

    async def read(self) -> bytes:
        """The next data; empty at the end."""
        if self._rest:
            data, self._rest = self._rest, b""
            return data
        if self._ended:
            return b""
        data = await self._read()
        self._ended = not data
        return data

    async def line(self) -> bytes:
        """The next line with its end; without one at the end of the input; empty after it."""
        parts: list[bytes] = []
        while data := await self.read():
            first, end, rest = data.partition(b"\n")
            parts += (first, end)
            if end:
                self._rest = rest
                break
        return b"".join(parts)

    async def lines(self) -> AsyncIterator[bytes]:
        """The lines of the input, each with its end."""
        while line := await self.line():
            yield line

    async def all(self, limit: int) -> bytes:
        """All of the input, at most about ``limit`` bytes."""
        parts = bytearray()
        while len(parts) < limit and (data := await self.read()):
            parts += data
        return bytes(parts)


class Streams(NamedTuple):
    """A command's standard streams."""

    input: Input
    out: Write
    err: Write


class ShellPipe:
    """A bounded pipe from one writer to one reader."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(_MOST_PIECES)
        self._ended = False
        self._closed = False

    async def write(self, data: bytes) -> bool:
        """Write data; False if the reader has closed the pipe."""
        if data and not self._closed:
            await self._pieces.put(data)
        return not self._closed

    async def end(self) -> None:
        """Close the writing end."""
        if not self._closed:
            await self._pieces.put(b"")

    async def read(self) -> bytes:
        """The next data; empty at the end."""
        if self._ended:
            return b""
        data = await self._pieces.get()
        self._ended = not data
        return data

    def close(self) -> None:
        """Close the reading end and release a blocked writer."""
        self._closed = True
        while not self._pieces.empty():
            self._pieces.get_nowait()
