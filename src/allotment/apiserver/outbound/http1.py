"""HTTP/1.1 requests on a connection, and their answers: the head, then the body in pieces."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Final, NamedTuple

import httptools

from allotment.apiserver.outbound.errors import CallFailed
from allotment.apiserver.streams.kubelets import Connection

_MAX_HEAD_BYTES: Final = 1 << 20
_CONTINUE: Final = 100
_WITHOUT_BODY: Final = frozenset({204, 304})


class OutboundRequest(NamedTuple):
    """A request. ``path`` has the query; names of headers are in lower case; ``host`` is the Host header."""

    method: str
    path: str
    host: str
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""


class Head(NamedTuple):
    """The status and the headers of an answer, their names in lower case."""

    code: int
    headers: Sequence[tuple[str, str]]

    @property
    def named(self) -> Mapping[str, str]:
        """The headers by name."""
        return dict(self.headers)


class Broken(Exception):
    """Raised if a connection ends before the first byte of an answer: it may have been closed while it was idle."""


class _Received:
    """The parser's callbacks: the parts of an answer as they arrive."""

    def __init__(self) -> None:
        self.headers: list[tuple[str, str]] = []
        self.head: Head | None = None
        self.pieces: list[bytes] = []
        self.is_complete = False
        self.keeps_open = False
        self.parser = httptools.HttpResponseParser(self)

    def on_message_begin(self) -> None:
        self.headers, self.head, self.is_complete = [], None, False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        self.head = Head(self.parser.get_status_code(), self.headers)
        self.keeps_open = self.parser.should_keep_alive()

    def on_body(self, piece: bytes) -> None:
        self.pieces.append(piece)

    def on_message_complete(self) -> None:
        self.is_complete = True


class HttpConnection:
    """One request after another on a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._received = _Received()
        #: Whether another request can follow, once the body has been read.
        self.is_reusable = False

    async def send(self, request: OutboundRequest) -> Head:
        """Send a request and return the head of its answer. Raises CallFailed, Broken or OSError."""
        self.is_reusable = False
        self._received = _Received()
        lines = [f"{request.method} {request.path} HTTP/1.1", f"host: {request.host}"]
        lines += [f"{name}: {value}" for name, value in request.headers]
        if request.body or request.method not in ("GET", "HEAD"):
            lines.append(f"content-length: {len(request.body)}")
        try:
            await self._connection.write("\r\n".join((*lines, "", "")).encode("latin-1", "replace") + request.body)
            return await self._head()
        except ConnectionError:
            raise Broken from None

    async def _head(self) -> Head:
        size = 0
        received = self._received
        while (head := received.head) is None or head.code == _CONTINUE:
            data = await self._connection.read()
            if not data and not size:
                raise Broken
            if not data:
                raise CallFailed("unexpected EOF")
            size += len(data)
            self._parse(data)
            if size > _MAX_HEAD_BYTES and received.head is None:
                raise CallFailed(f"net/http: server response headers exceeded {_MAX_HEAD_BYTES} bytes; aborted")
        return head

    def _parse(self, data: bytes) -> None:
        try:
            self._received.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # requests never name another protocol
        except httptools.HttpParserError as error:
            raise CallFailed(f"malformed HTTP response: {error}") from None

    async def body(self, head: Head, method: str) -> AsyncGenerator[bytes, None]:
        """Yield the body in pieces as they arrive. Raises CallFailed or OSError."""
        received = self._received
        if method == "HEAD" or head.code in _WITHOUT_BODY:
            self.is_reusable = received.keeps_open and received.is_complete
            return
        while True:
            pieces, received.pieces = received.pieces, []
            for piece in pieces:
                yield piece
            if received.is_complete:
                break
            data = await self._connection.read()
            if not data:
                if "content-length" in head.named or "transfer-encoding" in head.named:
                    raise CallFailed("unexpected EOF")
                return
            self._parse(data)
        self.is_reusable = received.keeps_open

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()
