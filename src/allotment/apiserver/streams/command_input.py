"""Buffers for the input and terminal sizes that a client sends to a running command."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

import msgspec

from allotment.decoding import decodable

#: Buffered bytes of standard input beyond which the client is not read.
_WAITING = 256 * 1024


class Input(AsyncIterator[bytes]):
    """A buffered stream of bytes for a command's standard input."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._changed = asyncio.Event()

    async def put(self, data: bytes) -> None:
        """Add input; waits while the buffer is full."""
        if not data or self._ended:
            return
        self._pieces.append(data)
        self._size += len(data)
        self._changed.set()
        while self._size > _WAITING and not self._ended:
            self._changed.clear()
            await self._changed.wait()

    def end(self) -> None:
        """Signal the end of input."""
        self._ended = True
        self._changed.set()

    async def __anext__(self) -> bytes:
        while not self._pieces:
            if self._ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        piece = self._pieces.popleft()
        self._size -= len(piece)
        self._changed.set()
        return piece


class _Size(msgspec.Struct):
    Width: int
    Height: int


class Sizes(AsyncIterator[tuple[int, int]]):
    """A stream of terminal sizes that keeps only the latest unread one."""

    def __init__(self) -> None:
        self._sizes: deque[tuple[int, int]] = deque(maxlen=8)
        self._changed = asyncio.Event()
        self._ended = False

    def put(self, message: bytes) -> None:
        """Add a message of the resize channel; invalid messages are ignored."""
        try:
            size = msgspec.json.decode(message, type=decodable(_Size))
        except msgspec.DecodeError:
            return
        self._sizes.append((size.Width, size.Height))
        self._changed.set()

    def end(self) -> None:
        """Signal the end of the stream."""
        self._ended = True
        self._changed.set()

    async def __anext__(self) -> tuple[int, int]:
        while not self._sizes:
            if self._ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self._sizes.popleft()
