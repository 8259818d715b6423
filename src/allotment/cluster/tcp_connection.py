"""A TCP connection with the interface of connections to pods."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

_CHUNK: Final = 64 * 1024


class StreamConnection:
    """A connection over asyncio's streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """Read the next data; empty at the end or after a reset."""
        try:
            return await self._reader.read(_CHUNK)
        except ConnectionError:
            return b""

    async def write(self, data: bytes) -> None:
        """Send data. Raises ConnectionError if the peer has closed the connection."""
        self._writer.write(data)
        await self._writer.drain()

    async def write_eof(self) -> None:
        """Close the sending side."""
        with suppress(OSError):
            self._writer.write_eof()

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
