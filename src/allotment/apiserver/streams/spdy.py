"""The server side of SPDY/3.1, as far as Kubernetes uses it.

Works on any byte transport: client-opened streams with headers, data in both directions, half-close, reset and ping.
Flow control is not implemented, as in Go's clients, so one unread stream blocks the session and its connection.
https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY, _HEADERS = 1, 2, 3, 6, 7, 8
_FIN: Final = 1
_PROTOCOL_ERROR, _INVALID_STREAM, _CANCEL = 1, 2, 5

_FRAME_MOST: Final = 1024 * 1024
_HEADERS_MOST: Final = 64 * 1024
_STREAMS_MOST: Final = 1000
#: Buffered bytes of one stream beyond which the session stops reading.
_WAITING: Final = 256 * 1024


class SpdyError(Exception):
    """Raised when the peer violates SPDY/3.1."""


_DICTIONARY_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_LOOSE: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _dictionary() -> bytes:
    """The compression dictionary of header blocks (section 2.6.10.1): length-prefixed words, then plain text."""
    words = [word.replace("_", " ").encode() for word in _DICTIONARY_WORDS.split()]
    return b"".join(len(word).to_bytes(4) + word for word in words) + _LOOSE.encode()


DICTIONARY: Final = _dictionary()


class Stream:
    """A stream opened by the client."""

    def __init__(self, session: Session, number: int, headers: dict[str, str]) -> None:
        self.number = number
        self.headers = headers
        self._session = session
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._ended = False  # the client sends no more
        self._closed = False  # we send no more
        self._reset = False
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def read(self) -> bytes:
        """Return the next data; empty at the end. Raises ConnectionResetError if the client reset the stream."""
        while not self._waiting:
            if self._reset:
                raise ConnectionResetError("the client has reset the stream")
            if self._ended:
                return b""
            self._more.clear()
            await self._more.wait()
        data = self._waiting.popleft()
        self._size -= len(data)
        if self._size <= _WAITING // 2:
            self._room.set()
        return data

    async def write(self, data: bytes) -> None:
        """Send data; waits while the client does not read."""
        if self._closed or self._reset:
            raise ConnectionResetError("the stream is closed")
        for start in range(0, len(data), _FRAME_MOST):
            await self._session.send(_data_frame(self.number, data[start : start + _FRAME_MOST]))

    async def close(self) -> None:
        """Close the sending side; no effect if it is closed."""
        if not self._closed and not self._reset:
            self._closed = True
            await self._session.send(_data_frame(self.number, b"", _FIN))
            self._session.tidy(self)

    async def reset(self) -> None:
        """Reset the stream."""
        if not self._reset:
            self._reset = True
            await self._session.send(_reset_frame(self.number, _CANCEL))
            self.lose()

    @property
    def done(self) -> bool:
        """Whether both sides have closed the stream."""
        return self._reset or (self._ended and self._closed)

    async def put(self, data: bytes) -> None:
        """Add data received from the client."""
        if self._ended or self._reset:
            return
        if data:
            self._waiting.append(data)
            self._size += len(data)
            self._more.set()
            if self._size > _WAITING:
                self._room.clear()
                await self._room.wait()

    def end(self) -> None:
        """Record that the client has closed its sending side."""
        self._ended = True
        self._more.set()
        self._session.tidy(self)

    def lose(self) -> None:
        """Record that the client has reset the stream or disconnected."""
        self._reset = True
        self._more.set()
        self._room.set()
        self._session.tidy(self)


class Session:
    """A connection's streams. ``opened`` is called with each new stream, in order."""

    def __init__(self, send: Callable[[bytes], Awaitable[None]], opened: Callable[[Stream], None]) -> None:
        self.send = send
        self._opened = opened
        self._streams: dict[int, Stream] = {}
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._last = 0

    async def feed(self, data: bytes) -> None:
        """Process received bytes, in chunks of any size. Raises SpdyError."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= 8:
            length = int.from_bytes(buffer[5:8])
            if length > _FRAME_MOST + 1024:
                raise SpdyError(f"a frame of {length} bytes")
            if len(buffer) < 8 + length:
                return
            head, flags, body = bytes(buffer[:4]), buffer[4], bytes(buffer[8 : 8 + length])
            del buffer[: 8 + length]
            if head[0] & 0x80:
                if head[:2] != b"\x80\x03":
                    raise SpdyError(f"version {int.from_bytes(head[:2]) & 0x7FFF}, not 3")
                await self._control(int.from_bytes(head[2:]), flags, body)
            else:
                await self._data(int.from_bytes(head), flags, body)

    def lose(self) -> None:
        """Record that the connection is lost, for all streams."""
        for stream in tuple(self._streams.values()):
            stream.lose()

    def tidy(self, stream: Stream) -> None:
        """Remove a stream that both sides have closed."""
        if stream.done:
            self._streams.pop(stream.number, None)

    async def _data(self, number: int, flags: int, body: bytes) -> None:
        stream = self._streams.get(number)
        if stream is None:
            if number > self._last:
                await self.send(_reset_frame(number, _INVALID_STREAM))
            return
        await stream.put(body)
        if flags & _FIN:
            stream.end()

    async def _control(self, kind: int, flags: int, body: bytes) -> None:
        if kind == _SYN_STREAM:
            await self._open(flags, body)
        elif kind == _RST_STREAM:
            if stream := self._streams.get(int.from_bytes(body[:4]) & 0x7FFFFFFF):
                stream.lose()
        elif kind == _PING:
            if int.from_bytes(body[:4]) % 2:  # the server's ping ids are even
                await self.send(_control_frame(_PING, body[:4]))
        elif kind == _HEADERS:
            self._headers(body[4:])  # not used, but the decompressor needs the data

    async def _open(self, flags: int, body: bytes) -> None:
        if len(body) < 10:
            raise SpdyError("a stream without a number")
        number = int.from_bytes(body[:4]) & 0x7FFFFFFF
        headers = self._headers(body[10:])
        if number % 2 == 0 or number <= self._last or len(self._streams) >= _STREAMS_MOST:
            await self.send(_reset_frame(number, _PROTOCOL_ERROR))
            return
        self._last = number
        stream = self._streams[number] = Stream(self, number, headers)
        await self.send(_control_frame(_SYN_REPLY, number.to_bytes(4) + self._compressed({})))
        if flags & _FIN:
            stream.end()
        self._opened(stream)

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            decompressed = self._inflate.decompress(block, _HEADERS_MOST)
        except zlib.error as error:
            raise SpdyError(f"headers that cannot be read: {error}") from None
        if self._inflate.unconsumed_tail:
            raise SpdyError(f"headers of more than {_HEADERS_MOST} bytes")
        position = 4

        def text() -> str:
            nonlocal position
            end = position + 4 + int.from_bytes(decompressed[position : position + 4])
            if end > len(decompressed):
                raise SpdyError("headers that end too early")
            value = decompressed[position + 4 : end].decode("latin-1")
            position = end
            return value

        return {text().lower(): text() for _ in range(min(int.from_bytes(decompressed[:4]), _HEADERS_MOST))}

    def _compressed(self, headers: dict[str, str]) -> bytes:
        parts = [len(headers).to_bytes(4)]
        for pair in headers.items():
            parts += [len(text).to_bytes(4) + text.encode("latin-1") for text in pair]
        return self._deflate.compress(b"".join(parts)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def _control_frame(kind: int, body: bytes, flags: int = 0) -> bytes:
    return b"\x80\x03" + kind.to_bytes(2) + bytes((flags,)) + len(body).to_bytes(3) + body


def _reset_frame(number: int, status: int) -> bytes:
    return _control_frame(_RST_STREAM, number.to_bytes(4) + status.to_bytes(4))


def _data_frame(number: int, data: bytes, flags: int = 0) -> bytes:
    return number.to_bytes(4) + bytes((flags,)) + len(data).to_bytes(3) + data
