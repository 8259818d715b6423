"""What one command of a simulated shell writes and the next reads: a pipe.

It holds little, so that who writes waits for who reads, and a command that goes on for ever costs no memory.
"""

from __future__ import annotations

import asyncio
from typing import Final

_MOST_PIECES: Final = 16


class Flow:
    """From one writer to one reader."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(_MOST_PIECES)
        self._ended = False
        self._closed = False

    async def write(self, data: bytes) -> bool:
        """Hand on; False when nobody reads any more."""
        if data and not self._closed:
            await self._pieces.put(data)
        return not self._closed

    async def end(self) -> None:
        """Nothing more is written."""
        if not self._closed:
            await self._pieces.put(b"")

    async def read(self) -> bytes:
        """What comes next; empty at the end."""
        if self._ended:
            return b""
        data = await self._pieces.get()
        self._ended = not data
        return data

    def close(self) -> None:
        """Nothing more is read; whoever waits to write need not."""
        self._closed = True
        while not self._pieces.empty():
            self._pieces.get_nowait()
