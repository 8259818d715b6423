"""TLS handshakes: they count as connections from the moment that a client connects.

Event loops report a TLS connection only after its handshake. Clients that connect and stay silent would not count
against the limit of connections, and exhaust the file descriptors of the process.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from contextlib import suppress
from functools import partial
from typing import Protocol, cast

from allotment.lab.http_server.limits import Limits


class Host(Protocol):
    """The server that counts handshakes."""

    limits: Limits

    def admit_handshake(self, handshake: TlsHandshake) -> None:
        """Count a handshake; at the limit of connections, others are closed."""
        ...

    def forget_handshake(self, handshake: TlsHandshake) -> None:
        """Remove a handshake that has ended."""
        ...

    def secured(self, handshake: TlsHandshake) -> asyncio.Protocol:
        """Return the protocol for the connection after its handshake."""
        ...


class TlsHandshake(asyncio.Protocol):
    """The protocol of a client that has not completed its handshake.

    The accepted socket is taken from the transport before its first byte is read, and connected again with TLS.
    (``start_tls`` would lose bytes: uvloop reads before a task could call it.)
    """

    def __init__(self, server: Host, context: ssl.SSLContext) -> None:
        self._server = server
        self._context = context
        self._task: asyncio.Task[None] | None = None
        #: The socket, until the task starts.
        self._accepted: socket.socket | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when a client is connected."""
        plain = cast("asyncio.Transport", transport)  # uvloop's transports are not asyncio's classes
        try:
            accepted = socket.socket(fileno=os.dup(plain.get_extra_info("socket").fileno()))
        except OSError:  # no descriptor is left, or the client has gone
            return
        finally:
            plain.abort()
        accepted.setblocking(False)
        self._accepted = accepted
        self._server.admit_handshake(self)
        self._task = asyncio.get_running_loop().create_task(self._perform(accepted))

    async def _perform(self, accepted: socket.socket) -> None:
        self._accepted = None
        try:
            with suppress(OSError):  # also an error of TLS, and a timeout
                await asyncio.get_running_loop().connect_accepted_socket(
                    partial(self._server.secured, self), accepted, ssl=self._context,
                    ssl_handshake_timeout=self._server.limits.handshake_seconds,
                )  # fmt: skip
        finally:
            self._server.forget_handshake(self)

    def abort(self) -> None:
        """Close the connection."""
        if self._task is not None:
            self._task.cancel()
        if self._accepted is not None:
            self._accepted.close()
