"""A connection to a real port, as the agent passes it on."""

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
        """What came; empty at the end, or when the other side broke off."""
        try:
            return await self._reader.read(_CHUNK)
        except ConnectionError:
            return b""

    async def write(self, data: bytes) -> None:
        """Send. Raises ConnectionError when nobody takes it any more."""
        self._writer.write(data)
        await self._writer.drain()

    async def write_eof(self) -> None:
        """Nothing more will be sent."""
        with suppress(OSError):
            self._writer.write_eof()

    async def close(self) -> None:
        """Let go of it."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
