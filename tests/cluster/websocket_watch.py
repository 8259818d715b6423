"""Watches over WebSocket, as pages in a browser open them: with the token as a subprotocol. Nothing is interpreted."""

from __future__ import annotations

import asyncio
import ssl
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

BEARER: Final = "base64url.bearer.authorization.k8s.io."
PLAIN: Final = "base64.binary.k8s.io"
_KEY: Final = "Gzdi90mAEOAMhYE0sBU+XQ=="


class Server(NamedTuple):
    """The address of an API server."""

    host: str
    port: int
    tls: ssl.SSLContext


class Frame(NamedTuple):
    """A frame from the server. ``opcode``: 1 for text, 2 for binary, 8 for the end, 10 for a pong."""

    opcode: int
    payload: bytes


class WebSocket(NamedTuple):
    """The response to a handshake, and the connection after it."""

    code: int
    headers: dict[str, str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def frame(self) -> Frame:
        """The next frame."""
        first, length = await self.reader.readexactly(2)
        if length > 125:
            length = int.from_bytes(await self.reader.readexactly(2 if length == 126 else 8))
        return Frame(first & 0x0F, await self.reader.readexactly(length))

    def send(self, opcode: int, payload: bytes = b"") -> None:
        """Send a short frame, with a mask that changes nothing."""
        self.writer.write(bytes((0x80 | opcode, 0x80 | len(payload))) + bytes(4) + payload)


def bearer(token: str) -> str:
    """A token as a subprotocol."""
    return BEARER + urlsafe_b64encode(token.encode()).decode().rstrip("=")


@asynccontextmanager
async def opened(server: Server, path: str, protocols: Sequence[str], *lines: str) -> AsyncIterator[WebSocket]:
    """Open a WebSocket as a browser does, with further header lines."""
    reader, writer = await asyncio.open_connection(server.host, server.port, ssl=server.tls)
    head = [
        f"GET {path} HTTP/1.1", f"Host: {server.host}:{server.port}", "Connection: Upgrade", "Upgrade: websocket",
        "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {_KEY}", *lines,
    ]  # fmt: skip
    if protocols:
        head.append(f"Sec-WebSocket-Protocol: {', '.join(protocols)}")
    writer.write("".join(f"{line}\r\n" for line in (*head, "")).encode())
    status, *fields = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
    try:
        yield WebSocket(int(status.split()[1]), headers, reader, writer)
    finally:
        writer.close()
