"""HTTP server: admission of connections, deadlines and shutdown."""

from __future__ import annotations

import asyncio
import ssl
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from allotment.apiserver.http_messages import Application
from allotment.lab.http_server.body_budget import BodyBudget
from allotment.lab.http_server.connection import Connection
from allotment.lab.http_server.limits import DEFAULT, Limits
from allotment.lab.http_server.tls_handshake import TlsHandshake

# The event loop of the process: uvloop if it is installed, else asyncio's.
try:
    import uvloop
except ImportError:  # not available on Windows
    new_event_loop = asyncio.new_event_loop
else:
    new_event_loop = uvloop.new_event_loop

#: The listen backlog: connections that are accepted before any can be rejected.
_BACKLOG = 128
#: File descriptors reserved for the rest of the process.
_OTHERS = 128


def _most_connections(wanted: int) -> int:
    """The connection limit by file descriptors: exhausting them would break the whole process."""
    try:
        import resource
    except ImportError:  # not available on Windows
        return wanted
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else min(wanted, max(8, soft - _BACKLOG - _OTHERS))


class Server:
    """Serves one application on any number of addresses, plain and TLS."""

    def __init__(self, application: Application, limits: Limits = DEFAULT) -> None:
        self.application = application
        self.limits = limits._replace(connections=_most_connections(limits.connections))
        self.bodies = BodyBudget(limits.all_body_bytes, limits.client_body_bytes)
        self.stopping = False
        self.now: Callable[[], float] = time.monotonic
        self._connections: dict[Connection, None] = {}
        #: Connections that are not encrypted yet.
        self._handshakes: dict[TlsHandshake, None] = {}
        self._listeners: list[asyncio.Server] = []
        self._watch: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._empty.set()

    async def listen(self, host: str | Sequence[str], port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen on an address (all of those of ``localhost``); port 0 takes a free one. Returns the port."""
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(
            partial(Connection, self) if tls is None else partial(TlsHandshake, self, tls),
            host, port, backlog=_BACKLOG,
            reuse_address=sys.platform != "win32",
        )  # fmt: skip
        self._listeners.append(listener)
        if self._watch is None:
            self._watch = loop.call_later(self.limits.check_seconds, self._check)
        return int(listener.sockets[0].getsockname()[1])

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    def secured(self, handshake: TlsHandshake) -> Connection:
        """Return the protocol for a connection after its handshake."""
        return Connection(self, handshake)

    def admit_handshake(self, handshake: TlsHandshake) -> None:
        """Count a handshake; at the limit of connections the oldest one is closed.

        A client that connects to be served completes its handshake long before it is the oldest. The connection that
        results is admitted like any other.
        """
        if self._handshakes and self._is_full():
            self._close_oldest_handshake()
        self._handshakes[handshake] = None

    def forget_handshake(self, handshake: TlsHandshake) -> None:
        """Remove a handshake that has ended."""
        self._handshakes.pop(handshake, None)

    def admit(self, connection: Connection) -> bool:
        """Whether another connection is accepted.

        At the limit the oldest handshake is closed, or the connection that is idle for the longest time.
        """
        if connection.handshake is not None:
            self.forget_handshake(connection.handshake)
        if self._is_full():
            if self._handshakes:
                self._close_oldest_handshake()
            else:
                idle = next((other for other in self._connections if other.idle), None)
                if idle is None:
                    return False
                idle.abort()
                self._connections.pop(idle, None)
        self._connections[connection] = None
        self._empty.clear()
        return True

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self._connections.pop(connection, None)
        if not self._connections:
            self._empty.set()

    def _is_full(self) -> bool:
        return len(self._connections) + len(self._handshakes) >= self.limits.connections

    def _close_oldest_handshake(self) -> None:
        oldest = next(iter(self._handshakes))
        del self._handshakes[oldest]
        oldest.abort()

    def _check(self) -> None:
        now = self.now()
        for connection in tuple(self._connections):
            connection.check(now)
        self._watch = asyncio.get_running_loop().call_later(self.limits.check_seconds, self._check)

    async def stop(self, grace_seconds: float = 5) -> None:
        """Stop accepting, end streams immediately, wait for responses in flight, then abort."""
        self.stopping = True
        for listener in self._listeners:
            listener.close()
        while self._handshakes:
            self._close_oldest_handshake()
        for connection in tuple(self._connections):
            connection.stop()
        try:
            async with asyncio.timeout(grace_seconds):
                await self._empty.wait()
        except TimeoutError:
            for connection in tuple(self._connections):
                connection.abort()
            await asyncio.sleep(0)
        if self._watch is not None:
            self._watch.cancel()
