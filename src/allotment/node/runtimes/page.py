"""What a simulated application answers on its ports: one page, over HTTP; who answers, and with which devices."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

#: The most that a client may send ahead of an empty line.
_LONGEST_HEAD: Final = 64 * 1024
#: Answers that wait for a client who asks and does not read; then it is not listened to.
WAITING: Final = 64


class Page:
    """A connection to a simulated application."""

    def __init__(self, text: str) -> None:
        self._body = text.encode()
        self._got = b""
        self._answers: asyncio.Queue[bytes] = asyncio.Queue(WAITING)
        self._closed = False

    async def read(self) -> bytes:
        """The next answer; empty at the end."""
        if self._closed and self._answers.empty():
            return b""
        return await self._answers.get()

    async def write(self, data: bytes) -> None:
        """Take a request; one without a body is whole at its empty line."""
        self._got += data
        while b"\r\n\r\n" in self._got:
            head, _, self._got = self._got.partition(b"\r\n\r\n")
            last = b"connection: close" in head.lower() or not head.startswith((b"GET ", b"HEAD "))
            told = b"close" if last else b"keep-alive"
            await self._answers.put(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: " + told
                + b"\r\nContent-Length: " + str(len(self._body)).encode() + b"\r\n\r\n"
                + (b"" if head.startswith(b"HEAD ") else self._body)
            )  # fmt: skip
            if last:
                await self.write_eof()
        if len(self._got) > _LONGEST_HEAD:
            await self.write_eof()

    async def write_eof(self) -> None:
        """The other side sends no more: neither do we, after what is asked."""
        if not self._closed:
            self._closed = True
            await self._answers.put(b"")

    async def close(self) -> None:
        """Let go of it."""
        self._closed = True
        with suppress(asyncio.QueueFull):  # nobody waits for more who has so much to read
            self._answers.put_nowait(b"")
