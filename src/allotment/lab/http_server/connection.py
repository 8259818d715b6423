"""A connection of the HTTP server: its requests are answered sequentially, in the order of arrival.

A task per connection answers, so that awaits of the application (durability, a watch event) are cancelled when the
client disconnects. Input that arrives meanwhile is parsed and queued up to a limit, then the socket is no longer read.
Output is buffered in the transport up to its high-water mark; a client that does not read is disconnected by the
server's deadline checks (:meth:`Connection.check`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol, cast

from allotment.apiserver.http_messages import Application, Response, Streaming, Upgrade
from allotment.lab.http_server import response_heads
from allotment.lab.http_server.body_budget import BodyBudget
from allotment.lab.http_server.handshake import agree
from allotment.lab.http_server.limits import Limits
from allotment.lab.http_server.request_parser import ParsedRequest, Reader, RequestRejected, UpgradeRequested
from allotment.lab.http_server.streaming import pump
from allotment.lab.http_server.tls import peer_of
from allotment.lab.http_server.tls_handshake import TlsHandshake
from allotment.lab.http_server.websocket import RawSocket, WebSocket

_log = logging.getLogger(__name__)

#: Bodies up to this size are sent in one write with the head.
_JOIN = 64 * 1024


class Host(Protocol):
    """The server that owns connections."""

    application: Application
    limits: Limits
    bodies: BodyBudget
    stopping: bool
    now: Callable[[], float]

    def admit(self, connection: Connection) -> bool:
        """Whether another connection is accepted."""
        ...

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection."""
        ...


class Connection(asyncio.Protocol):
    """The protocol of one client connection."""

    _reader: Reader
    _transport: asyncio.Transport

    def __init__(self, server: Host, handshake: TlsHandshake | None = None) -> None:
        self._server = server
        #: The handshake that it counted as, with TLS.
        self.handshake = handshake
        self._limits = server.limits
        self._pending: deque[ParsedRequest | Response] = deque()
        self._task: asyncio.Task[None] | None = None
        self._wake: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._socket: WebSocket | RawSocket | None = None
        #: First bytes of another protocol, until the upgrade is decided.
        self._rest: bytearray | None = None
        self._busy = False
        self._streaming = False
        self._chunking = False
        self._deaf = False  # further input is discarded
        self._eof = False
        self._closing = False
        self._held = False
        self._since = 0.0  # start of the parser's stage
        self._stage = "between"
        self._unsent = (0, 0.0)  # buffered bytes, and since when

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when a client is connected (with TLS: after the handshake)."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports are not asyncio's classes
        self._tls = transport.get_extra_info("ssl_object") is not None
        peer = peer_of(transport.get_extra_info("peercert"))
        self._reader = Reader(self._deliver, peer, self._limits, self._server.bodies)
        self._since = self._server.now()
        if not self._server.admit(self):
            busy = "the server has too many connections: try again"
            answer = response_heads.refusal(429, "TooManyRequests", busy, (("Retry-After", "1"),))
            self._respond(answer, head_only=False, keep_alive=False)
            self._discard_input()
            return
        self._task = asyncio.get_running_loop().create_task(self._work())

    def data_received(self, data: bytes) -> None:
        """Called with received bytes."""
        if self._socket is not None:
            self._socket.feed(data)
        elif self._rest is not None:
            self._rest += data
            if len(self._rest) > self._limits.head_bytes:
                self.hold(True)
        elif not self._deaf:
            self._feed(data)

    def eof_received(self) -> bool:
        """Called when the client sends no more. Pending requests are answered, but a stream ends."""
        self._eof = True
        if self._socket is not None:
            self._socket.feed_eof()
            self._hang_up_later()  # tasks still running then are cancelled
        elif self._closing or self._streaming:
            self._shut()
        elif not self._busy and not self._pending:
            self._close()
        return not self._tls  # TLS has no half-closed connections

    def connection_lost(self, error: Exception | None) -> None:
        """Called when the connection is closed by either side."""
        self._closing = True
        self._server.forget(self)
        self._reader.release()
        for parsed in self._pending:
            self._give_back(parsed)
        self._pending.clear()
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        """Called when the client reads more slowly than the server writes."""
        self._room = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Called when the write buffer has room again."""
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._room = None
        self._unsent = (0, 0.0)

    # --- receiving

    def _feed(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
        except UpgradeRequested as upgrading:
            self._rest = bytearray(upgrading.rest)
        except RequestRejected as refused:
            if not self._deaf:  # input after a request that closes the connection is ignored
                self._refuse(refused.response)
            return
        stage = self._reader.stage
        if stage != self._stage or stage == "between":
            self._stage = stage
            self._since = self._server.now()
        if self._reader.continue_due and not self._busy and not self._pending:
            self._continue()
        if len(self._pending) > self._limits.pipelined:
            self.hold(True)

    def _deliver(self, parsed: ParsedRequest) -> None:
        if self._deaf:
            self._give_back(parsed)
            return
        self._pending.append(parsed)
        if not parsed.keep_alive and "upgrade" not in parsed.request.headers:
            self._deaf = True
        self._awaken()

    def _refuse(self, response: Response) -> None:
        """Answer this after the pending requests, and stop reading requests."""
        self._reader.release()
        self._deaf = True
        self._pending.append(response)
        self._awaken()

    def _continue(self) -> None:
        self._reader.continue_due = False
        self._transport.write(response_heads.CONTINUE)

    def _awaken(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _give_back(self, parsed: ParsedRequest | Response) -> None:
        if isinstance(parsed, ParsedRequest):
            parsed.body_size.release()

    # --- answering

    async def _work(self) -> None:
        try:
            while not self._closing:
                if self._pending:
                    self._busy = True
                    await self._answer(self._pending.popleft())
                    self._busy = False
                    continue
                if self._eof:
                    self._close()
                    return
                self._since = self._server.now()
                if self._held:
                    self.hold(False)
                if self._reader.continue_due:
                    self._continue()
                self._wake = asyncio.get_running_loop().create_future()
                await self._wake
        except asyncio.CancelledError:
            if not self._closing:  # the server stops
                self._finish_early()
        except Exception:  # noqa: BLE001 - a fault of ours: say so where we will see it, and let this client go
            _log.exception("error on a connection")
            self._transport.abort()

    async def _answer(self, parsed: ParsedRequest | Response) -> None:
        if isinstance(parsed, Response):
            self._respond(parsed, head_only=False, keep_alive=False)
            self._close(linger=True)
            return
        request = parsed.request
        try:
            answer = await self._server.application(request)
        except Exception:  # noqa: BLE001 - the application's fault costs one answer, not the connection's order
            _log.exception("%s %s failed", request.method, request.path)
            answer = response_heads.refusal(500, "InternalError", "Internal error occurred: see the server's log")
        finally:
            self._give_back(parsed)
        if isinstance(answer, Upgrade):
            agreed = agree(request.headers, answer)
            if not isinstance(agreed, Response):
                self._transport.write(agreed.head)
                socket: WebSocket | RawSocket
                if agreed.form == "websocket":
                    socket = WebSocket(self, agreed.protocol, self._limits.message_bytes)
                else:
                    socket = RawSocket(self, agreed.protocol)
                await self._talk(answer, socket)
                return
            answer = agreed
        keep_alive = parsed.keep_alive and not self._server.stopping
        if isinstance(answer, Streaming):
            keep_alive = await self._stream(answer, parsed, keep_alive)
        else:
            self._respond(answer, head_only=request.method == "HEAD", keep_alive=keep_alive)
            if self._room is not None:
                await self.drained()
        if not keep_alive:
            self._close(linger=self._rest is not None)
        elif self._rest is not None:  # an upgrade request got an ordinary response: the bytes after it are HTTP as well
            rest, self._rest = bytes(self._rest), None
            self.hold(False)
            if rest:
                self._feed(rest)

    def _respond(self, answer: Response, *, head_only: bool, keep_alive: bool) -> None:
        code, headers, body = answer
        closing = b"" if keep_alive else b"Connection: close\r\n"
        if not response_heads.has_body(code):
            self._transport.write(b"%b%b%b\r\n" % (response_heads.head(code, headers), response_heads.date(), closing))
            return
        head = b"%b%b%bContent-Length: %d\r\n\r\n" % (
            response_heads.head(code, headers),
            response_heads.date(),
            closing,
            len(body),
        )
        if head_only:
            self._transport.write(head)
        elif len(body) <= _JOIN:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)

    async def _stream(self, answer: Streaming, parsed: ParsedRequest, keep_alive: bool) -> bool:
        """Send a stream; returns whether the connection can be reused."""
        bare = parsed.request.method == "HEAD" or not response_heads.has_body(answer.code)
        chunked = parsed.chunks and not bare
        keep_alive = keep_alive and (chunked or bare)
        lines = [response_heads.head(answer.code, answer.headers), response_heads.date()]
        if chunked:
            lines.append(b"Transfer-Encoding: chunked\r\n")
        if not keep_alive:
            lines.append(b"Connection: close\r\n")
        head = b"".join((*lines, b"\r\n"))
        try:
            if bare:
                self._transport.write(head)
            elif self._eof or self._server.stopping:
                return False
            else:
                self._streaming, self._chunking = True, chunked
                await pump(answer.pieces, head, chunked, self)
                if chunked:
                    self._transport.write(b"0\r\n\r\n")
                self._streaming = False
        except ConnectionError as error:
            _log.info("the response to %s was interrupted: %s", parsed.request.path, error)
            self._transport.abort()
            return False
        except Exception:  # noqa: BLE001 - without the final chunk the client knows that something is missing
            _log.exception("the response to %s was interrupted", parsed.request.path)
            self._transport.abort()
            return False
        finally:
            if (aclose := getattr(answer.pieces, "aclose", None)) is not None:
                await aclose()
        return keep_alive

    async def _talk(self, upgrade: Upgrade, socket: WebSocket | RawSocket) -> None:
        self._socket = socket
        rest, self._rest = bytes(self._rest or b""), None
        self.hold(False)
        if rest:
            socket.feed(rest)
        if self._eof:
            socket.feed_eof()
        code = 1000
        try:
            await upgrade.talk(socket)
        except asyncio.CancelledError:
            code = 1001  # WebSocket close code: going away
            raise
        except ConnectionError:
            code = 1001
        except Exception:  # noqa: BLE001 - as above; the close code tells the client
            _log.exception("a connection with protocol %s was interrupted", socket.protocol)
            code = 1011
        finally:
            if not self._closing:
                await socket.close(code)

    # --- the interface of sockets and streams

    def write(self, data: bytes) -> None:
        """Write bytes without waiting."""
        self._transport.write(data)

    async def drained(self) -> None:
        """Wait while the client does not read."""
        while (room := self._room) is not None and not self._closing:
            await asyncio.shield(room)

    def hold(self, held: bool) -> None:
        """Pause or resume reading."""
        if held == self._held or self._transport.is_closing():
            return
        self._held = held
        if held:
            self._transport.pause_reading()
        else:
            self._since = self._server.now()
            self._transport.resume_reading()

    def hang_up(self) -> None:
        """Close after pending output is sent."""
        self._close(linger=True)

    # --- shutdown

    def _shut(self) -> None:
        # Closed twice, asyncio's TLS transport drops its state, and any call on it fails.
        if not self._transport.is_closing():
            self._transport.close()

    def _close(self, *, linger: bool = False) -> None:
        self._closing = True
        if not linger or self._eof or self._transport.is_closing():
            self._shut()
        else:
            self._discard_input()

    def _discard_input(self) -> None:
        """Let the client read the response; discard what it still sends."""
        self._deaf = True
        self._closing = True
        self.hold(False)
        if self._transport.can_write_eof():
            with contextlib.suppress(OSError):
                self._transport.write_eof()
        self._hang_up_later()

    def _hang_up_later(self) -> None:
        asyncio.get_running_loop().call_later(self._limits.linger_seconds, self._transport.close)

    def _finish_early(self) -> None:
        """End the current response so that the client sees a complete response."""
        if self._streaming and self._chunking and not self._transport.is_closing():
            self._transport.write(b"0\r\n\r\n")
        self._close()

    def stop(self) -> None:
        """Finish the current response (a stream ends here), accept no more requests."""
        if self._task is None or self._closing:
            self._shut()
        elif self._streaming or self._socket is not None or not (self._busy or self._pending):
            self._task.cancel()

    def abort(self) -> None:
        """Close without flushing pending output."""
        self._transport.abort()

    @property
    def idle(self) -> bool:
        """Whether the connection is between two requests."""
        return not self._busy and not self._pending and self._socket is None and self._stage == "between"

    def check(self, now: float) -> None:
        """Called periodically: disconnect a client that exceeded a deadline."""
        limits = self._limits
        size = self._transport.get_write_buffer_size()
        if size == 0 or size < self._unsent[0] or self._unsent[0] == 0:
            self._unsent = (size, now)
        elif now - self._unsent[1] > limits.stalled_seconds:
            self._transport.abort()
            return
        if self._closing or self._held or self._socket is not None or self._rest is not None:
            return
        waited = now - self._since
        if self._stage == "between":
            if waited > limits.idle_seconds and self.idle:
                self._close()
        elif waited > (limits.head_seconds if self._stage == "head" else limits.body_seconds):
            if not self._deaf:
                self._refuse(
                    response_heads.refusal(408, "Timeout", f"the request's {self._stage} was not received in time")
                )
