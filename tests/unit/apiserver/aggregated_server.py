"""An HTTPS server that serves an API group, as aggregated API servers do."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from allotment.lab import certificates
from allotment.model.trees import Tree

RESOURCES: Tree = {
    "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "own.example.com/v1", "resources": [
        {"name": "sizes", "singularName": "size", "namespaced": True, "kind": "Size", "verbs": ["get", "list", "watch"],
         "shortNames": ["sz"]},
        {"name": "sizes/status", "singularName": "", "namespaced": True, "kind": "Size", "verbs": ["get"]},
    ],
}  # fmt: skip
#: A body of 2 MiB.
LONG = b'"' + b"x" * ((2 << 20) - 2) + b'"'


class AggregatedServer:
    """``requests``: method, path with query, headers and body of each request but those for ``RESOURCES``."""

    def __init__(self, port: int, authority: bytes) -> None:
        self.port = port
        self.authority = authority
        self.requests: list[tuple[str, str, list[tuple[str, str]], bytes]] = []


@contextmanager
def aggregated_server(folder: Path, name: str = "own.shop.svc") -> Iterator[AggregatedServer]:
    """Serve until the end of the context.

    A path with ``missing`` gets 404, one with ``long`` gets ``LONG``, one with ``cut`` only its start, and a watch two
    lines in chunks.
    """
    authority, identity = certificates.serving(folder, datetime.now(UTC), (name,))

    class _Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.path == "/apis/own.example.com/v1":
                self._send(200, RESOURCES)
                return
            headers = [(key.lower(), value) for key, value in self.headers.items()]
            running.requests.append((self.command, self.path, headers, body))
            if "watch=true" in self.path:
                self._stream()
            elif "long" in self.path or "cut" in self.path:
                self._send_bytes(200, LONG, len(LONG) // 2 if "cut" in self.path else len(LONG))
            elif "missing" in self.path:
                self._send(404, {"kind": "Status", "code": 404})
            else:
                self._send(201 if self.command == "POST" else 200, {"kind": "Size", "path": self.path})

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _send(self, code: int, tree: Tree) -> None:
            body = json.dumps(tree).encode()
            self._send_bytes(code, body, len(body))

        def _send_bytes(self, code: int, body: bytes, size: int) -> None:
            self.send_response(code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:size])
            self.close_connection = size < len(body)

        def _stream(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for line in (b'{"type":"ADDED"}\n', b'{"type":"DELETED"}\n'):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: object) -> None:
            pass

    class _Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a client that does not trust the certificate

    with _Server(("127.0.0.1", 0), _Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity.certificate, identity.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        running = AggregatedServer(int(server.server_address[1]), authority.read_bytes())
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield running
        finally:
            server.shutdown()
            thread.join()
