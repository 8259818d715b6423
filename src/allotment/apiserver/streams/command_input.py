"""What a client sends to a running command: input and sizes of its terminal, as iterators that a command can take."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

import msgspec

#: Bytes of input that wait for the command before no more is taken from the client.
_WAITING = 256 * 1024


class Input(AsyncIterator[bytes]):
    """Bytes for a command's standard input."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._changed = asyncio.Event()

    async def put(self, data: bytes) -> None:
        """More input; waits while the command does not read."""
        if not data or self._ended:
            return
        self._pieces.append(data)
        self._size += len(data)
        self._changed.set()
        while self._size > _WAITING and not self._ended:
            self._changed.clear()
            await self._changed.wait()

    def end(self) -> None:
        """No more will come."""
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
    """Sizes of a terminal. Who does not read them in time sees the last ones only."""

    def __init__(self) -> None:
        self._sizes: deque[tuple[int, int]] = deque(maxlen=8)
        self._changed = asyncio.Event()
        self._ended = False

    def put(self, message: bytes) -> None:
        """A message of the resize channel; what is none is ignored."""
        try:
            size = msgspec.json.decode(message, type=_Size)
        except msgspec.DecodeError:
            return
        self._sizes.append((size.Width, size.Height))
        self._changed.set()

    def end(self) -> None:
        """No more will come."""
        self._ended = True
        self._changed.set()

    async def __anext__(self) -> tuple[int, int]:
        while not self._sizes:
            if self._ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self._sizes.popleft()
