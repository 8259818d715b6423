"""HTTP/1.1 requests on a connection, and their answers: the head, then the body in pieces."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Final, NamedTuple

from allotment.apiserver.outbound.errors import CallFailed
from allotment.apiserver.streams.kubelets import Connection

_MAX_HEAD: Final = 1 << 20
_END: Final = b"\r\n"


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


class HttpConnection:
    """One request after another on a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._buffer = bytearray()
        #: Whether another request can follow, once the body has been read.
        self.is_reusable = False

    async def send(self, request: OutboundRequest) -> Head:
        """Send a request and return the head of its answer. Raises CallFailed, Broken or OSError."""
        self.is_reusable = False
        self._buffer.clear()
        lines = [f"{request.method} {request.path} HTTP/1.1", f"host: {request.host}"]
        lines += [f"{name}: {value}" for name, value in request.headers]
        if request.body or request.method not in ("GET", "HEAD"):
            lines.append(f"content-length: {len(request.body)}")
        try:
            await self._connection.write("\r\n".join((*lines, "", "")).encode("latin-1", "replace") + request.body)
            while True:
                head = await self._head()
                if head.code != 100:
                    return head
        except ConnectionError:
            raise Broken from None

    async def _head(self) -> Head:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > _MAX_HEAD:
                raise CallFailed("net/http: server response headers exceeded 1048576 bytes; aborted")
            data = await self._connection.read()
            if not data:
                if not self._buffer:
                    raise Broken
                raise CallFailed("unexpected EOF")
            self._buffer += data
        first, *lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        version, _, rest = first.partition(" ")
        code = rest[:3]
        if not version.startswith("HTTP/1.") or not code.isdigit():
            raise CallFailed(f'malformed HTTP response "{first}"')
        pairs = (line.partition(":") for line in lines)
        return Head(int(code), [(name.strip().lower(), value.strip()) for name, _, value in pairs])

    async def body(self, head: Head, method: str) -> AsyncGenerator[bytes, None]:
        """Yield the body in pieces as they arrive. Raises CallFailed or OSError."""
        named = head.named
        keeps = named.get("connection", "").lower() != "close"
        if method == "HEAD" or head.code in (204, 304):
            self.is_reusable = keeps
        elif "chunked" in named.get("transfer-encoding", "").lower():
            async for piece in self._chunks():
                yield piece
            self.is_reusable = keeps
        elif "content-length" in named:
            async for piece in self._counted(int(named["content-length"])):
                yield piece
            self.is_reusable = keeps
        else:
            yield bytes(self._buffer)
            while data := await self._connection.read():
                yield data

    async def _more(self) -> None:
        data = await self._connection.read()
        if not data:
            raise CallFailed("unexpected EOF")
        self._buffer += data

    async def _counted(self, size: int) -> AsyncGenerator[bytes, None]:
        while size:
            if not self._buffer:
                await self._more()
            piece = bytes(self._buffer[:size])
            del self._buffer[:size]
            size -= len(piece)
            yield piece

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        while True:
            try:
                size = int((await self._line()).partition(b";")[0], 16)
            except ValueError:
                raise CallFailed("invalid byte in chunk length") from None
            if not size:
                while await self._line():
                    pass  # trailers
                return
            async for piece in self._counted(size):
                yield piece
            await self._line()

    async def _line(self) -> bytes:
        while (end := self._buffer.find(_END)) < 0:
            await self._more()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()
