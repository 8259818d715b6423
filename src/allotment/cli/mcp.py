"""``allot mcp``: serves the queries as tools, over standard input and output or over HTTP."""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from allotment.cli.inputs.watched import watched_cluster
from allotment.errors import InputError
from allotment.extras import require
from allotment.watched.cluster import WatchedCluster
from allotment.watched.view import ClusterView

_LOOPBACK: Final = "127.0.0.1"
#: Seconds for which a call waits until a running cluster has been read for the first time.
_FIRST_VIEW: Final = 30


class _Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def run(arguments: Namespace) -> int:
    """Serve until the client closes its end, or Ctrl-C; return 0."""
    require("allot mcp", "mcp")
    address = _address(arguments.http) if arguments.http is not None else None
    if address is None and arguments.token_file:
        raise InputError("--token-file: requires --http", "clients that start this program need no token")
    token = _token(arguments.token_file) if address is not None else ""
    watched = watched_cluster(arguments)
    # With --http, the server ends at Ctrl-C, and then raises the signal again.
    with suppress(asyncio.CancelledError, KeyboardInterrupt):
        asyncio.run(_serve(watched, address, token, is_new=not arguments.token_file))
    return 0


async def _serve(watched: WatchedCluster, address: _Address | None, token: str, *, is_new: bool) -> None:
    from allotment.mcp.serving import PATH, listen, serve_http, serve_stdio

    first = watched.view()

    async def newest() -> ClusterView:
        if not first.connected:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_VIEW):
                    return await watched.changed(first.revision)
        return watched.view()

    following = asyncio.create_task(watched.run())
    try:
        if address is None:
            # A thread waits for input, and no exception ends it: Ctrl-C ends the process.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            await serve_stdio(newest)
            return
        with listen(address.host, address.port) as socket:
            bound = _Address(address.host, socket.getsockname()[1])
            sys.stderr.write(f"MCP at http://{bound}{PATH}\n")
            if is_new:
                sys.stderr.write(f"Authorization: Bearer {token}\n")
            await serve_http(newest, address.host, socket, token)
    finally:
        following.cancel()


def _address(text: str) -> _Address:
    """Return the address of ``8790`` or ``0.0.0.0:8790``. Raises InputError."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise InputError(f"--http: expected [ADDRESS:]PORT, found {text!r}", "for example 8790")
    return _Address(host.strip("[]") or _LOOPBACK, int(port))


def _token(file: str | None) -> str:
    """Return the token of a file, or a new one. Raises InputError."""
    if file is None:
        return secrets.token_urlsafe(24)
    token = Path(file).read_text(encoding="utf-8", errors="replace").strip()
    if not token or not token.isascii() or any(character.isspace() for character in token):
        raise InputError(f"--token-file: expected one word in {file}", "write it with openssl rand -hex 24")
    return token
