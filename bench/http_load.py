"""Loads an HTTP server with one request repeatedly, over raw asyncio connections, and reports the throughput.

``python -m bench.http_load https://127.0.0.1:6443/api/v1/namespaces/default/pods/web --connections 16 --seconds 5``
prints requests per second and the latency's p50 and p99. A client library would be slower than the server it measures.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import sys
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import httptools

from allotment.lab.http_server import new_event_loop


class Load(NamedTuple):
    """The request to send. In ``path`` and ``body``, ``{n}`` is replaced by the number of the request."""

    method: str
    path: str
    headers: dict[str, str]
    body: str = ""


class Figures(NamedTuple):
    """The results; times in milliseconds."""

    requests: int
    seconds: float
    codes: dict[int, int]
    p50: float
    p99: float
    #: When each request was sent, by its number (>= 1), in seconds of ``perf_counter``.
    moments: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds

    def text(self) -> str:
        """The results as text."""
        codes = ", ".join(f"{code}: {count}" for code, count in sorted(self.codes.items()))
        return f"{self.rate:,.0f} req/s   p50 {self.p50:.2f} ms   p99 {self.p99:.2f} ms   ({codes})"


class _Shared:
    """The state that the connections of one run share."""

    def __init__(self, load: Load, host: str, until: float, most: int) -> None:
        self.until = until
        self.most = most
        self.sent = 0
        self.times: list[float] = []
        self.moments: list[float] = []
        self.codes: dict[int, int] = {}
        head = "".join(f"{name}: {value}\r\n" for name, value in {"Host": host, **load.headers}.items())
        self._load = load
        self._head = head
        self._fixed = None if "{n}" in load.path + load.body else self._make(load.path, load.body)

    def _make(self, path: str, body: str) -> bytes:
        data = body.encode()
        length = f"Content-Length: {len(data)}\r\n" if data or self._load.method != "GET" else ""
        return f"{self._load.method} {path} HTTP/1.1\r\n{self._head}{length}\r\n".encode() + data

    def next(self) -> bytes | None:
        """The next request, or None when it is time to stop."""
        if self.sent >= self.most or time.perf_counter() >= self.until:
            return None
        self.sent += 1
        if self._fixed is not None:
            return self._fixed
        number = str(self.sent)
        return self._make(self._load.path.replace("{n}", number), self._load.body.replace("{n}", number))


class _Connection(asyncio.Protocol):
    def __init__(self, shared: _Shared, done: asyncio.Future[None]) -> None:
        self._shared = shared
        self._done = done
        self._parser = httptools.HttpResponseParser(self)
        self._start = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports are not subclasses of asyncio's
        self._send()

    def _send(self) -> None:
        data = self._shared.next()
        if data is None:
            self._transport.close()
            return
        self._start = time.perf_counter()
        self._shared.moments.append(self._start)
        self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        shared = self._shared
        shared.times.append(time.perf_counter() - self._start)
        code = self._parser.get_status_code()
        shared.codes[code] = shared.codes.get(code, 0) + 1
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_result(None)


async def measure(
    url: str, load: Load, *, connections: int = 16, seconds: float = 5, most: int = sys.maxsize,
    tls: ssl.SSLContext | None = None,
) -> Figures:  # fmt: skip
    """Load the server at ``url`` until the time or the number of requests is reached."""
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    loop = asyncio.get_running_loop()
    start = time.perf_counter()
    shared = _Shared(load, f"{host}:{port}", start + seconds, most)
    ends = [loop.create_future() for _ in range(connections)]
    for end in ends:
        await loop.create_connection(partial(_Connection, shared, end), host, port, ssl=tls)
    await asyncio.gather(*ends)
    elapsed = time.perf_counter() - start
    times = sorted(shared.times) or [0.0]
    p50, p99 = (times[min(len(times) - 1, int(len(times) * share))] * 1000 for share in (0.5, 0.99))
    return Figures(len(shared.times), elapsed, shared.codes, p50, p99, tuple(shared.moments))


def context(authority: str = "", certificate: str = "", key: str = "") -> ssl.SSLContext:
    """TLS for a client: without an authority, the server is not verified."""
    tls = ssl.create_default_context(cafile=authority or None)
    if not authority:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    if certificate:
        tls.load_cert_chain(certificate, key or None)
    return tls


def main() -> None:
    """Parse the arguments, load the server, print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--method", default="GET")
    parser.add_argument(
        "--body", default="", help="file with the request body; {n} is replaced with the request's number"
    )
    parser.add_argument("--header", action="append", default=[], help="request header, as NAME: VALUE")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--requests", type=int, default=sys.maxsize)
    parser.add_argument("--authority", default="", help="CA file")
    parser.add_argument("--certificate", default="", help="client certificate")
    parser.add_argument("--key", default="")
    given = parser.parse_args()
    parts = urlsplit(given.url)
    headers = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in given.header)}
    body = Path(given.body).read_text() if given.body else ""
    if body:
        headers.setdefault("Content-Type", "application/json")
    load = Load(given.method, parts.path + (f"?{parts.query}" if parts.query else ""), headers, body)
    tls = context(given.authority, given.certificate, given.key) if parts.scheme == "https" else None
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        figures = runner.run(
            measure(given.url, load, connections=given.connections, seconds=given.seconds, most=given.requests, tls=tls)
        )
    print(figures.text())


if __name__ == "__main__":
    main()
