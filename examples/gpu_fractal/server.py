"""The application as a process: draws pictures continuously and serves them over HTTP."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType
from typing import Final

from gpu_fractal.settings import Settings
from gpu_fractal.site import ERRORS, Site

#: The idle timeout of a connection.
_IDLE_SECONDS: Final = 30


def serve(environment: Mapping[str, str]) -> int:
    """Draw and serve until SIGTERM or Ctrl-C, and return the exit code. Errors are printed to standard error."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _exit)
    site = Site(environment, on_demand=False)
    try:
        settings = site.open()
        with _server(site, settings) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            host, port = server.server_address[:2]
            stats = site.stats()
            drawn_by = ", ".join(str(stats[key]) for key in ("device", "strategy", "share") if stats[key])
            _log(f"http://{_text(host)}:{port}/ {drawn_by}")
            _draw(site, settings)
    except OSError as error:
        sys.stderr.write(f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}\n")
    except ERRORS as error:
        sys.stderr.write(f"{error}\n")
    return 1


def _draw(site: Site, settings: Settings) -> None:
    """Start a picture every interval, or immediately if drawing takes longer."""
    while True:
        next_start = time.monotonic() + settings.interval
        picture = site.refresh()
        if settings.interval:
            _log(f"picture {picture.number}: {picture.view.place}, {picture.scheme.name}, {picture.seconds:.2f} s")
        time.sleep(max(next_start - time.monotonic(), 0))


def _server(site: Site, settings: Settings) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        """Responds to GET and HEAD from the site."""

        protocol_version = "HTTP/1.1"
        server_version = "allotment-fractal"
        timeout = _IDLE_SECONDS

        def do_GET(self) -> None:
            """Respond with headers and body."""
            status, content_type, body = site.respond(self.path)
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def do_HEAD(self) -> None:
            """Respond without a body."""
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not logged."""

    return ThreadingHTTPServer((settings.host, settings.port), Handler)


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(0)


def _text(host: str | bytes | bytearray) -> str:
    return host if isinstance(host, str) else host.decode()


def _log(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
