"""The HTTP server of a simulated application: one answer per path."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Final, NamedTuple

#: Maximum size of a request head in bytes.
_LONGEST_HEAD: Final = 64 * 1024
#: The first byte of a client that expects TLS, and the answer to it.
_TLS_HANDSHAKE: Final = b"\x16"
_NOT_HTTP: Final = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
#: Maximum number of unread answers; then no further requests are accepted until the client reads.
MAX_PENDING_ANSWERS: Final = 64


class Answer(NamedTuple):
    """The response for a path."""

    status: int
    content_type: str
    body: bytes


Application = Callable[[str], Awaitable[Answer]]


def fixed_answer(text: str) -> Application:
    """An application that returns the same text on every path."""

    async def answer(path: str) -> Answer:
        return Answer(200, "text/plain; charset=utf-8", text.encode())

    return answer


class SimulatedHttpConnection:
    """A connection to a simulated application."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._got = b""
        self._answers: asyncio.Queue[bytes] = asyncio.Queue(MAX_PENDING_ANSWERS)
        self._closed = False

    async def read(self) -> bytes:
        """The next answer; empty at the end."""
        if self._closed and self._answers.empty():
            return b""
        return await self._answers.get()

    async def write(self, data: bytes) -> None:
        """Receive request bytes; a request without a body is complete at its empty line."""
        self._got += data
        if self._got[:1] == _TLS_HANDSHAKE:
            await self._answers.put(_NOT_HTTP)
            await self.write_eof()
            return
        while b"\r\n\r\n" in self._got:
            head, _, self._got = self._got.partition(b"\r\n\r\n")
            last = b"connection: close" in head.lower() or not head.startswith((b"GET ", b"HEAD "))
            words = head.partition(b"\r\n")[0].split()
            status, content_type, body = await self._application(words[1].decode("latin-1") if words[1:] else "/")
            lines = (
                f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
                f"Content-Type: {content_type}",
                f"Content-Length: {len(body)}",
                f"Connection: {'close' if last else 'keep-alive'}",
            )
            header = "\r\n".join((*lines, "", "")).encode()
            await self._answers.put(header if head.startswith(b"HEAD ") else header + body)
            if last:
                await self.write_eof()
        if len(self._got) > _LONGEST_HEAD:
            await self.write_eof()

    async def write_eof(self) -> None:
        """End the connection after the pending answers: the client sends no more."""
        if not self._closed:
            self._closed = True
            await self._answers.put(b"")

    async def close(self) -> None:
        """Close the connection."""
        self._closed = True
        with suppress(asyncio.QueueFull):  # a full queue already wakes the reader
            self._answers.put_nowait(b"")
