"""Runs the server: sockets, TLS, and the end of open streams."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final
from urllib.parse import quote

import uvicorn

from allotment.components.certificate import Certificate
from allotment.watched.cluster import WatchedCluster
from allotment.web.application import WebServer
from allotment.web.connections import PromptConnection
from allotment.web.options import WebOptions

#: Seconds that requests in progress get at the end.
_SHUTDOWN: Final = 3
#: Connections that wait to be accepted.
_BACKLOG: Final = 128
#: Headers are at most this long, in bytes: tokens of identity providers are long.
_MAX_HEADERS: Final = 64 * 1024


async def serve(
    watched: WatchedCluster,
    options: WebOptions,
    ready: Callable[[str], None] = lambda address: None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve until ``stop`` is set, or until cancelled; ``ready`` is called with the address to open.

    Raises OSError if it cannot listen, and CertificateError. A certificate that is replaced is used from then on.
    """
    certificate = Certificate(options.certificate, options.key) if options.certificate and options.key else None
    stop = stop or asyncio.Event()
    web = WebServer(watched, options)
    config = uvicorn.Config(
        web.app,
        http=PromptConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_SHUTDOWN,
        backlog=_BACKLOG,
        h11_max_incomplete_event_size=_MAX_HEADERS,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.key,
    )
    config.load()
    if config.ssl is not None and certificate is not None:
        config.ssl.sni_callback = partial(_use_newest, certificate)
    with _listening(options) as listener:
        server = _Server(config)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(web.run(), name="page"), group.create_task(_collect(watched), name="collection")]
            serving = group.create_task(server.serve([listener]), name="server")
            ready(_address(options, listener.getsockname()[1], web.token))
            stopped = asyncio.ensure_future(stop.wait())
            try:
                await asyncio.wait((stopped, serving), return_when=asyncio.FIRST_COMPLETED)
            finally:
                stopped.cancel()
                web.stopping.set()
                server.should_exit = True
                await asyncio.wait((serving,), timeout=_SHUTDOWN + 1)
                for task in tasks:
                    task.cancel()


def _use_newest(certificate: Certificate, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
    """Let a new connection use the certificate as it is in its files now."""
    connection.context = certificate.context()


async def _collect(watched: WatchedCluster) -> None:
    """Exclude the objects of the cluster from garbage collections, which would take half a second each time.

    They have no cycles; what follows from a view may have some, and is collected as usual.
    """
    gc.disable()
    try:
        view = watched.view()
        while not view.connected:
            view = await watched.changed(view.revision)
        gc.collect()
        gc.freeze()
    finally:
        gc.enable()


class _Server(uvicorn.Server):
    """A server that leaves the signals to the program that runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave all signals as they are."""
        yield


def _listening(options: WebOptions) -> socket.socket:
    """Return a socket that listens. Raises OSError."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # asyncio does so only for sockets that it creates; otherwise the body of a response waits 40 ms for an ACK.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((options.host, options.port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _address(options: WebOptions, port: int, token: str) -> str:
    """Return the address to open in a browser."""
    host = f"[{options.host}]" if ":" in options.host else options.host
    if options.host in ("0.0.0.0", "::", ""):
        host = "127.0.0.1"
    scheme = "https" if options.certificate else "http"
    return f"{scheme}://{host}:{port}{options.base_path}/{f'?token={quote(token)}' if token else ''}"
