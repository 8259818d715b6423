"""An HTTPS server on this machine that answers as webhooks do, for the lab and for kube-apiserver."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from allotment.lab import certificates
from allotment.model.trees import Tree


class Reply(NamedTuple):
    """A response of the server."""

    body: bytes
    code: int = 200
    media: str = "application/json"


class Received(NamedTuple):
    """A request to the server. ``target``: the path with its query."""

    target: str
    body: Tree
    connection: int


#: Decides about the body of a request.
Handler = Callable[[Tree], Tree | Reply]


class WebhookServer:
    """``handlers`` by path; ``received``: all requests, in order of arrival; ``ca_bundle`` in base64."""

    def __init__(self, server: ThreadingHTTPServer, authority: bytes) -> None:
        self.handlers: dict[str, Handler] = {}
        self.received: list[Received] = []
        self.port = int(server.server_address[1])
        self.ca_bundle = base64.b64encode(authority).decode()

    def config(self, path: str) -> Tree:
        """The clientConfig with the URL of a path."""
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.ca_bundle}


@contextmanager
def webhook_server(folder: Path, names: Sequence[str] = ()) -> Iterator[WebhookServer]:
    """Serve until the end of the context, with a certificate for this machine and for ``names``."""
    authority, identity = certificates.serving(folder, datetime.now(UTC), names)

    class _Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
            running.received.append(Received(self.path, body, self.client_address[1]))
            answer = running.handlers[self.path.partition("?")[0]](body)
            reply = answer if isinstance(answer, Reply) else Reply(json.dumps(answer).encode())
            self.send_response(reply.code)
            self.send_header("content-type", reply.media)
            self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class _Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a client that does not trust the certificate

    with _Server(("127.0.0.1", 0), _Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity.certificate, identity.key)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        running = WebhookServer(server, authority.read_bytes())
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield running
        finally:
            server.shutdown()
            thread.join()
