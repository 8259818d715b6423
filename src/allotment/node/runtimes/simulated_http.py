"""How a simulated application answers on its ports: over HTTP, one answer per path."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Final, NamedTuple

#: The most that a client may send ahead of an empty line.
_LONGEST_HEAD: Final = 64 * 1024
#: Answers that wait for a client who asks and does not read; then it is not listened to.
MAX_PENDING_ANSWERS: Final = 64


class Answer(NamedTuple):
    """What is at a path."""

    status: int
    content_type: str
    body: bytes


Application = Callable[[str], Awaitable[Answer]]


def fixed_answer(text: str) -> Application:
    """An application that says the same on every path."""

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
        """Take a request; one without a body is whole at its empty line."""
        self._got += data
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
            told = "\r\n".join((*lines, "", "")).encode()
            await self._answers.put(told if head.startswith(b"HEAD ") else told + body)
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
