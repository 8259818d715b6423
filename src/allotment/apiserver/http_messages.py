"""What passes between whoever owns the sockets and the API: a request, and one of three kinds of answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol


class Peer(NamedTuple):
    """Who the TLS client certificate says is there: common name, and organizations as groups."""

    name: str
    groups: tuple[str, ...]


class Request(NamedTuple):
    """A whole HTTP request. ``path`` is percent-encoded as received, without the query; header names are lower case."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = {}
    body: bytes = b""
    peer: Peer | None = None


class Response(NamedTuple):
    """An answer that is there at once. Content-Length is the transport's to add."""

    code: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Streaming(NamedTuple):
    """An answer that comes in pieces (watch, log): chunked, pulled only as fast as the reader takes it.

    The transport closes ``pieces`` (``aclose``) when the reader goes away.
    """

    code: int
    headers: tuple[tuple[str, str], ...]
    pieces: AsyncIterator[bytes]


class Socket(Protocol):
    """An upgraded connection that carries messages (WebSocket binary frames)."""

    protocol: str

    async def receive(self) -> bytes | None:
        """The next message, or None when the other side has closed."""
        ...

    async def send(self, message: bytes) -> None:
        """Send a message; waits while the other side does not read."""
        ...

    async def close(self, code: int = 1000) -> None:
        """Close in order."""
        ...


class Upgrade(NamedTuple):
    """Turn the connection into a WebSocket of the first of ``protocols`` that the client offers, and talk.

    ``""`` among them means that a client may offer none. ``talk`` is cancelled when the connection breaks; where the
    other side closes in order, ``receive`` says so first.

    A client that asks for ``Upgrade: SPDY/3.1`` gets its streams over the same ``Socket`` contract, with raw bytes as
    messages. It can have the protocols named ``SPDY/3.1+…`` (as tunnels name them), offered as what follows the plus.
    """

    protocols: tuple[str, ...]
    talk: Callable[[Socket], Awaitable[None]]


Answer = Response | Streaming | Upgrade


class Application(Protocol):
    """What a transport serves. Never raises for what a client sent."""

    async def __call__(self, request: Request) -> Answer:
        """Answer one request."""
        ...
