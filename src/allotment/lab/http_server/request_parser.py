"""Request parser: httptools callbacks, with a limit on everything that a client can grow."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

import httptools

from allotment.apiserver.http_messages import Peer, Request, Response
from allotment.lab.http_server.body_budget import BodyBudget, BodySize
from allotment.lab.http_server.limits import Limits
from allotment.lab.http_server.response_heads import bad_request, refusal, too_large


class ParsedRequest(NamedTuple):
    """A request, and the HTTP properties that its response depends on."""

    request: Request
    keep_alive: bool
    #: HTTP/1.0 has no chunked encoding.
    chunks: bool
    #: The part of the budget that the body uses, to release after the answer.
    body_size: BodySize


class RequestRejected(Exception):
    """Raised for invalid input; ``response`` is the answer, and no further input is parsed."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.code)
        self.response = response


class UpgradeRequested(Exception):
    """Raised if the request just delivered requests another protocol; ``rest``: the first bytes of it."""

    def __init__(self, rest: bytes) -> None:
        super().__init__()
        self.rest = rest


class Reader:
    """Parses one connection. ``stage``: what is being received, for deadlines."""

    __slots__ = (
        "_started", "_body", "_budget", "_deliver", "_head_bytes", "_headers", "_limits", "_method", "_parser", "_peer",
        "_refusal", "_size", "_url", "continue_due", "stage",
    )  # fmt: skip

    def __init__(
        self, deliver: Callable[[ParsedRequest], None], peer: Peer | None, limits: Limits, budget: BodyBudget
    ) -> None:
        self._deliver = deliver
        self._peer = peer
        self._limits = limits
        self._budget = budget
        self._parser = httptools.HttpRequestParser(self)
        self._refusal: Response | None = None
        self.stage: Literal["between", "head", "body"] = "between"
        self.continue_due = False
        self._reset()

    def _reset(self) -> None:
        self._url = b""
        self._method = b""
        self._headers: dict[str, str] = {}
        self._body: bytes | list[bytes] = b""
        self._size = BodySize(self._budget)
        self._head_bytes = 0
        self._started = False

    def feed(self, data: bytes) -> None:
        """Parse bytes and deliver complete requests. Raises RequestRejected or UpgradeRequested."""
        self._started = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
            self._parser = httptools.HttpRequestParser(self)
            if self.stage == "between":
                raise UpgradeRequested(rest) from None
            self.feed(self._without_upgrade() + rest)
        except httptools.HttpParserError as error:
            raise RequestRejected(self._refusal or bad_request(f"malformed HTTP request: {error}")) from None
        # An endless line triggers no callback. Its first chunk is not counted: other requests may share it.
        if self.stage == "head" and not self._started:
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.head_bytes:
                raise RequestRejected(self._head_too_large())

    def release(self) -> None:
        """Drop an incomplete body, and return its budget."""
        self._body = b""
        self._size.release()

    # Callbacks of httptools; their exceptions stop it.

    def on_message_begin(self) -> None:
        """Called at the first byte of a request."""
        self._reset()
        self._started = True
        self.stage = "head"

    def on_url(self, url: bytes) -> None:
        """Called with a part of the target."""
        self._url += url
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called with a header. Trailers are dropped: they must not pass for checked headers."""
        self._count(len(name) + len(value))
        if self.stage != "head":
            return
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        headers = self._headers
        if key in headers:
            if key == "host":  # a proxy and this server could each use a different one
                self._refuse(bad_request("too many Host headers"))
            headers[key] = f"{headers[key]}{'; ' if key == 'cookie' else ', '}{text}"
        else:
            headers[key] = text

    def on_headers_complete(self) -> None:
        """Called after the head: check it before the body is received."""
        headers = self._headers
        version = self._parser.get_http_version()
        self._method = self._parser.get_method()
        if version != "1.1" and version != "1.0":
            self._refuse(refusal(505, "", f"HTTP version {version} is not supported: use HTTP/1.1"))
        if version == "1.1" and "host" not in headers:
            self._refuse(bad_request("missing required Host header"))
        if b"%" in self._url and (escape := _INVALID_ESCAPE.search(self._url.partition(b"?")[0])):
            self._refuse(bad_request(f'invalid URL escape "{escape[0].decode("latin-1")}"'))
        self.stage = "body"
        length = headers.get("content-length")
        if length is not None:
            self._check_size(int(length))
        if "expect" in headers and headers["expect"].lower() == "100-continue" and version == "1.1":
            self.continue_due = True

    def on_body(self, data: bytes) -> None:
        """Called with a part of the body."""
        self._size.add(len(data), self._head)
        self._check_size(self._size.size)
        if not self._body:
            self._body = data
        elif isinstance(self._body, bytes):
            self._body = [self._body, data]
        else:
            self._body.append(data)

    def on_message_complete(self) -> None:
        """Called at the end of a request. The connection returns its body to the budget."""
        parser = self._parser
        if "upgrade" in self._headers and self._is_cut():
            return
        body = self._body if isinstance(self._body, bytes) else b"".join(self._body)
        request = self._head(body)
        self._body = b""  # until the next request, a body that no limit counts would stay in memory
        self.stage = "between"
        self.continue_due = False
        size, self._size = self._size, BodySize(self._budget)
        self._deliver(ParsedRequest(request, parser.should_keep_alive(), parser.get_http_version() != "1.0", size))

    def _head(self, body: bytes = b"") -> Request:
        """The request, as far as its body is known."""
        url = self._url
        if not url.startswith(b"/"):
            url = _path_of(url)
        path, _, query = url.decode("latin-1").partition("?")
        method = _METHODS.get(self._method) or self._method.decode("latin-1")
        return Request(method, path, query, self._headers, body, self._peer)

    def _is_cut(self) -> bool:
        """Whether the parser took the body for the first bytes of another protocol (as with curl's h2c)."""
        headers = self._headers
        return self._size.size == 0 and (
            "transfer-encoding" in headers or headers.get("content-length", "0").strip("0") != ""
        )

    def _without_upgrade(self) -> bytes:
        """The head without the upgrade, for a parser that reads the body."""
        lines = [b"%b %b HTTP/1.1\r\n" % (self._method, self._url)]
        del self._headers["upgrade"]
        self._headers.pop("connection", None)
        self._headers.pop("expect", None)
        lines += [f"{name}: {value}\r\n".encode("latin-1") for name, value in self._headers.items()]
        return b"".join((*lines, b"\r\n"))

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self._limits.head_bytes:
            self._refuse(self._head_too_large())

    def _check_size(self, size: int) -> None:
        if size > self._limits.body_bytes:
            self._refuse(too_large(self._limits.body_bytes))
        if size and self._size.is_over:
            busy = "the server is receiving too many large requests: try again"
            self._refuse(refusal(429, "TooManyRequests", busy, (("Retry-After", "1"),)))

    def _head_too_large(self) -> Response:
        return refusal(431, "", f"Request header too large: limit is {self._limits.head_bytes}")

    def _refuse(self, response: Response) -> None:
        self._refusal = response
        raise RequestRejected(response)


#: A percent sign that does not encode a byte, as Go reports it.
_INVALID_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2}).{0,2}")
_METHODS = {m.encode(): m for m in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")}


def _path_of(target: bytes) -> bytes:
    """The path of a target in absolute form (``http://host/path``), as proxies send it."""
    scheme, separator, rest = target.partition(b"://")
    if not separator or scheme.lower() not in (b"http", b"https"):
        return target  # "*" or an authority, not a path
    slash = rest.find(b"/")
    return rest[slash:] if slash >= 0 else b"/"
