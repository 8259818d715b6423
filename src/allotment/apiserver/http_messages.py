"""HTTP requests and responses as exchanged between a transport and an application such as the API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol


class Peer(NamedTuple):
    """The identity in a TLS client certificate: common name, and organizations as groups."""

    name: str
    groups: tuple[str, ...]


class Request(NamedTuple):
    """A complete HTTP request. ``path`` is percent-encoded without the query; header names are lower case."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = {}
    body: bytes = b""
    peer: Peer | None = None


class Response(NamedTuple):
    """A response with its complete body. The transport adds Content-Length."""

    code: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Streaming(NamedTuple):
    """A response sent in chunks (watch, log), produced only as fast as the client reads.

    The transport closes ``pieces`` (``aclose``) when the client disconnects. ``pieces`` raises ConnectionError if its
    source, such as another server, ends too early: the response then ends without its final chunk.
    """

    code: int
    headers: tuple[tuple[str, str], ...]
    pieces: AsyncIterator[bytes]


class Socket(Protocol):
    """An upgraded connection that carries messages (frames of a WebSocket)."""

    protocol: str

    async def receive(self) -> bytes | None:
        """Return the next message, or None when the peer has closed."""
        ...

    async def send(self, message: bytes, *, is_text: bool = False) -> None:
        """Send a message, of bytes or of text in UTF-8; waits while the peer does not read."""
        ...

    async def close(self, code: int = 1000) -> None:
        """Close with a WebSocket status code."""
        ...


class Upgrade(NamedTuple):
    """Upgrade to a WebSocket with the first of ``protocols`` that the client offers, then run ``talk``.

    ``""`` among them allows clients that offer none. ``talk`` is cancelled when the connection breaks; after an orderly
    close, ``receive`` returns None first.

    A client that requests ``Upgrade: SPDY/3.1`` uses the same ``Socket`` interface, with raw bytes as messages.
    Protocols named ``SPDY/3.1+…`` (as in tunnels) are available to it under the part after the plus.
    """

    protocols: tuple[str, ...]
    talk: Callable[[Socket], Awaitable[None]]


AnyResponse = Response | Streaming | Upgrade


class Application(Protocol):
    """An application that a transport serves. Client errors are returned as responses, not raised."""

    async def __call__(self, request: Request) -> AnyResponse:
        """Return the response to a request."""
        ...
