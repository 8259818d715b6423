"""The program ``etcd``: it reports that it is healthy and stores nothing, because the API server has its own store."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import urlsplit

from allotment.cli.envtest.flags import FlagError, parse

_USAGE: Final = """\
etcd of an Allotment lab, for controller-runtime's envtest.

  --data-dir             not used: the lab keeps its objects in memory
  --listen-client-urls   the addresses of which the first one serves /health
  --unsafe-no-fsync      no effect
"""
_HEALTHY: Final = b'{"health":"true","reason":""}'
#: Etcd's default.
_CLIENT_URL: Final = "http://localhost:2379"


class _Health(BaseHTTPRequestHandler):
    """Answers requests for the health; nothing else is served."""

    def do_GET(self) -> None:
        """Answer a request."""
        known = self.path == "/health"
        content = _HEALTHY if known else b"404 page not found\n"
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        """Discard the message."""


def main(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM or SIGINT and return the exit status."""
    if {"--help", "-h"} & set(arguments):
        sys.stdout.write(_USAGE)
        return 0
    try:
        first = parse(arguments).get("listen-client-urls", _CLIENT_URL).partition(",")[0]
    except FlagError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    address = urlsplit(first)
    # serve_forever returns only if another thread calls shutdown; an exception in this one ends it, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ThreadingHTTPServer((address.hostname or "localhost", address.port or 2379), _Health) as server:
            server.daemon_threads = True
            server.serve_forever()
    except KeyboardInterrupt:
        pass
    except OSError as error:
        sys.stderr.write(f"error: cannot listen on {first}: {error.strerror or error}\n")
        return 1
    return 0
