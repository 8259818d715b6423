"""WebSocket server protocol (RFC 6455): messages of an upgraded connection.

Only what Kubernetes' streams and watches use: no extensions, unfragmented messages. A protocol error is reported to the
client in the close code (1002, 1009), and the connection is closed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
#: Bytes of messages that wait to be received before the socket is no longer read.
_WAITING = 256 * 1024


class Line(Protocol):
    """The underlying connection."""

    def write(self, data: bytes) -> None:
        """Write bytes without waiting."""
        ...

    async def drained(self) -> None:
        """Wait while the client does not read."""
        ...

    def hold(self, held: bool) -> None:
        """Pause or resume reading."""
        ...

    def hang_up(self) -> None:
        """Close after pending output is sent."""
        ...


class Inbox:
    """Received messages; reading is paused when they exceed the limit."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._messages: deque[bytes] = deque()
        self._size = 0
        self._held = False
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None

    def put(self, message: bytes) -> None:
        """Add a message."""
        self._messages.append(message)
        self._size += len(message)
        if self._size > _WAITING and not self._held:
            self._held = True
            self._line.hold(True)
        self._wake()

    def end(self) -> None:
        """Mark the end of input."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def get(self) -> bytes | None:
        """The next message, or None at the end."""
        while not self._messages:
            if self._ended:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        message = self._messages.popleft()
        self._size -= len(message)
        if self._held and self._size <= _WAITING // 2:
            self._held = False
            self._line.hold(False)
        return message


class RawSocket:
    """A connection upgraded to a protocol with its own framing (SPDY): each chunk is a message."""

    def __init__(self, line: Line, protocol: str) -> None:
        self.protocol = protocol
        self._line = line
        self._inbox = Inbox(line)
        self._closed = False

    def feed(self, data: bytes) -> None:
        """Called with received bytes."""
        if data:
            self._inbox.put(data)

    def feed_eof(self) -> None:
        """Called when the client sends no more."""
        self._inbox.end()

    async def receive(self) -> bytes | None:
        """The next bytes, or None at the end."""
        return await self._inbox.get()

    async def send(self, message: bytes, *, is_text: bool = False) -> None:
        """Send bytes; waits while the client does not read."""
        if self._closed:
            raise ConnectionResetError("the connection is closed")
        self._line.write(message)
        await self._line.drained()

    async def close(self, code: int = 1000) -> None:
        """Close the connection; the code is not used in this protocol."""
        self._closed = True
        self._inbox.end()
        self._line.hang_up()


class WebSocket:
    """A connection upgraded to a WebSocket."""

    def __init__(self, line: Line, protocol: str, message_bytes: int) -> None:
        self.protocol = protocol
        self._line = line
        self._limit = message_bytes
        self._inbox = Inbox(line)
        self._buffer = bytearray()
        self._parts: list[bytes] | None = None
        self._parts_size = 0
        self._closed = False

    def feed(self, data: bytes) -> None:
        """Called with received bytes: extract complete frames."""
        if self._closed:
            self._buffer.clear()
            return
        self._buffer += data
        position = 0
        while not self._closed:
            end = self._frame(position)
            if end is None:
                break
            position = end
        del self._buffer[:position]

    def feed_eof(self) -> None:
        """Called when the client sends no more."""
        self._inbox.end()

    def _frame(self, start: int) -> int | None:
        """Process the frame at ``start``; returns its end, or None if it is incomplete."""
        buffer = self._buffer
        if len(buffer) < start + 2:
            return None
        first, second = buffer[start], buffer[start + 1]
        length, position = second & 0x7F, start + 2
        if length >= 126:
            width = 2 if length == 126 else 8
            if len(buffer) < position + width:
                return None
            length = int.from_bytes(buffer[position : position + width])
            position += width
        opcode = first & 0x0F
        if first & 0x70 or not second & 0x80:
            self._fail(1002, "reserved bits are set, or the frame is not masked")
            return None
        if opcode >= _CLOSE and (length > 125 or not first & 0x80):
            self._fail(1002, "a control frame is too long or fragmented")
            return None
        if length + self._parts_size > self._limit:
            self._fail(1009, f"the message is longer than {self._limit} bytes")
            return None
        end = position + 4 + length
        if len(buffer) < end:
            return None
        payload = unmasked(bytes(buffer[position + 4 : end]), bytes(buffer[position : position + 4]))
        self._take(opcode, bool(first & 0x80), payload)
        return end

    def _take(self, opcode: int, final: bool, payload: bytes) -> None:
        if opcode == _PING:
            self._line.write(frame(_PONG, payload))
        elif opcode == _CLOSE:
            self._end(payload[:2])
        elif opcode in (_TEXT, _BINARY, _CONTINUATION):
            if (opcode == _CONTINUATION) != (self._parts is not None):
                self._fail(1002, "unexpected continuation frame, or a new message within a fragmented one")
            elif self._parts is None and final:
                self._inbox.put(payload)
            else:
                self._parts = [*(self._parts or ()), payload]
                self._parts_size += len(payload)
                if final:
                    self._inbox.put(b"".join(self._parts))
                    self._parts, self._parts_size = None, 0
        elif opcode != _PONG:
            self._fail(1002, f"unknown opcode {opcode}")

    def _fail(self, code: int, reason: str) -> None:
        self._end(code.to_bytes(2) + reason.encode())

    def _end(self, payload: bytes) -> None:
        """Send or answer a close frame, and close the connection."""
        if not self._closed:
            self._closed = True
            self._line.write(frame(_CLOSE, payload))
            self._line.hang_up()
        self._inbox.end()

    async def receive(self) -> bytes | None:
        """The next message, or None when the client has closed."""
        return await self._inbox.get()

    async def send(self, message: bytes, *, is_text: bool = False) -> None:
        """Send a message; waits while the client does not read."""
        if self._closed:
            raise ConnectionResetError("the WebSocket is closed")
        self._line.write(frame(_TEXT if is_text else _BINARY, message))
        await self._line.drained()

    async def close(self, code: int = 1000) -> None:
        """Send a close frame and close."""
        self._end(code.to_bytes(2))


def frame(opcode: int, payload: bytes) -> bytes:
    """An unmasked frame, as servers send it."""
    length = len(payload)
    if length < 126:
        head = bytes((0x80 | opcode, length))
    elif length < 65536:
        head = bytes((0x80 | opcode, 126)) + length.to_bytes(2)
    else:
        head = bytes((0x80 | opcode, 127)) + length.to_bytes(8)
    return head + payload


def unmasked(data: bytes, mask: bytes) -> bytes:
    """Apply a four-byte mask, as one large integer: a loop over bytes would be a hundred times slower.

    >>> unmasked(unmasked(b"hello", b"abcd"), b"abcd")
    b'hello'
    """
    size = len(data)
    pad = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "little") ^ int.from_bytes(pad, "little")).to_bytes(size, "little")
