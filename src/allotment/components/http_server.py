"""A small HTTP server in threads, for probes and metrics.

It does not use the event loop, because probes must get a response especially while the event loop is blocked. The
number of threads and the duration of a connection are limited.
"""

from __future__ import annotations

import errno
import http.server
import io
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from allotment.components.certificate import Certificate
from allotment.components.settings import Address

log = logging.getLogger(__name__)

#: Time limit for receiving the request, and again for sending the response.
_SECONDS: Final = 10.0
_MAX_THREADS: Final = 256
_TEXT: Final = "text/plain; charset=utf-8"


class AddressUnavailable(Exception):
    """Raised if the server cannot listen on an address. The text contains the reason."""


class HttpResponse(NamedTuple):
    """A response of a request handler: HTTP status code, body and content type."""

    code: int
    body: bytes
    content_type: str = _TEXT
    authenticate: bool = False
    """Whether to request a bearer token (``WWW-Authenticate``)."""


def text(code: int, content: str) -> HttpResponse:
    """A plain-text response."""
    return HttpResponse(code, content.encode())


#: Maps path, query and headers to a response.
RequestHandler = Callable[[str, str, Message], HttpResponse]


@contextmanager
def serve(where: Address, handle: RequestHandler, certificate: Certificate | None = None) -> Iterator[Address]:
    """Serve GET requests; yields the address with its port. Raises AddressUnavailable."""
    try:
        server = _Server(where, handle, certificate)
    except OSError as error:
        why = "the address is already in use" if error.errno == errno.EADDRINUSE else (error.strerror or str(error))
        raise AddressUnavailable(f"{where}: {why}") from None
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name=f"endpoint {where}")
    thread.daemon = True
    thread.start()
    try:
        yield Address(where.host, server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    block_on_close = False  # slow clients do not delay the exit
    allow_reuse_address = True
    request_queue_size = 64
    server_address: tuple[str, int]

    def __init__(self, where: Address, handle: RequestHandler, certificate: Certificate | None) -> None:
        self.address_family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
        self.handle = handle
        self._slots = threading.BoundedSemaphore(_MAX_THREADS)
        self._certificate = certificate
        super().__init__((where.host, where.port), _Request)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in a thread, if one is available."""
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle a connection and release its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Handshake in the connection's thread, so that a slow client does not delay others."""
        request.settimeout(_SECONDS)
        if self._certificate is None:
            super().finish_request(request, client_address)
            return
        with self._certificate.context().wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a client closed its connection early", exc_info=True)


class _DeadlineReader(io.RawIOBase):
    """Input of a connection with a deadline for the whole request."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._until = time.monotonic() + _SECONDS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(max(self._until - time.monotonic(), 0.001))
        return self._connection.recv_into(buffer)


class _Request(http.server.BaseHTTPRequestHandler):
    server: _Server
    server_version = "allotment"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_DeadlineReader(self.connection))

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        path, _, query = self.path.partition("?")
        try:
            answer = self.server.handle(path, query, self.headers)
        except Exception:
            log.exception("%s: the request failed", path)
            answer = text(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error: see the log\n")
        self.connection.settimeout(_SECONDS)
        self.send_response(answer.code)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-cache, private")
        if answer.authenticate:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        if body:
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)
