"""WebSocket requests as pages in browsers send them: a token as a subprotocol, and watches.

A page can set no header of a WebSocket's handshake but the subprotocols. tests/cluster/test_websockets.py states what
kube-apiserver does. It leaves watches to golang.org/x/net/websocket, which requires an origin, and accepts at most one
subprotocol, whatever it is.
"""

from __future__ import annotations

import asyncio
import binascii
import re
from base64 import urlsafe_b64decode
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Final

from allotment.apiserver.http_messages import AnyResponse, Request, Response, Socket, Upgrade

_BEARER: Final = "base64url.bearer.authorization.k8s.io."
_PROTOCOLS: Final = "sec-websocket-protocol"
#: An absolute URI, or a path: what Go's url.ParseRequestURI accepts.
_ORIGIN: Final = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")
_LENGTH_BYTES: Final = 4


def is_websocket(request: Request) -> bool:
    """Return whether a request is the handshake of a WebSocket."""
    headers = request.headers
    options = [option.strip() for option in headers.get("connection", "").lower().split(",")]
    return "upgrade" in options and headers.get("upgrade", "").lower() == "websocket"


def subprotocol_token(request: Request) -> str | None:
    """Return the token among the subprotocols; None if there is none, and an empty text for a malformed one.

    The client must offer another subprotocol, which the server can accept.
    """
    offered = _offered(request)
    tokens = [name.removeprefix(_BEARER) for name in offered if name.startswith(_BEARER)]
    if not tokens or not is_websocket(request):
        return None
    if len(tokens) > 1 or len(offered) == 1 or "=" in tokens[0]:
        return ""
    try:
        return urlsafe_b64decode(tokens[0] + "=" * (-len(tokens[0]) % 4)).decode()
    except (binascii.Error, ValueError):
        return ""


def watch_response(
    request: Request, open_watch: Callable[[], AsyncGenerator[bytes, None]], *, is_text: bool
) -> AnyResponse:
    """Return the upgrade to a WebSocket that sends each event of a watch as a message.

    ``open_watch``: returns the body of the same watch without WebSocket: lines of JSON (``is_text``), or messages of
    protobuf after their lengths.
    """
    if not _ORIGIN.match(request.headers.get("origin", "")):
        return Response(403, (), b"")
    names = [name for name in _offered(request) if not name.startswith(_BEARER)]
    if len(names) > 1:
        return Response(400, (), b"")

    async def send(socket: Socket, chunks: AsyncGenerator[bytes, None]) -> None:
        async for chunk in chunks:
            for message in _lines(chunk) if is_text else _messages(chunk):
                await socket.send(message, is_text=is_text)

    async def ignore(socket: Socket) -> None:
        while await socket.receive() is not None:
            pass

    async def talk(socket: Socket) -> None:
        chunks = open_watch()
        sending, ignoring = asyncio.create_task(send(socket, chunks)), asyncio.create_task(ignore(socket))
        try:
            await asyncio.wait((sending, ignoring), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, ignoring):
                task.cancel()
            await asyncio.wait((sending, ignoring))
            await chunks.aclose()
        if not sending.cancelled():
            sending.result()

    return Upgrade(tuple(names) or ("",), talk)


def _offered(request: Request) -> list[str]:
    return [name for part in request.headers.get(_PROTOCOLS, "").split(",") if (name := part.strip())]


def _lines(chunk: bytes) -> Iterator[bytes]:
    return (line + b"\n" for line in chunk.split(b"\n") if line)


def _messages(chunk: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(chunk):
        begin = start + _LENGTH_BYTES
        start = begin + int.from_bytes(chunk[start:begin])
        yield chunk[begin:start]
