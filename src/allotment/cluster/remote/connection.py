"""HTTP requests to one API server: authentication, proxies and retries.

A request is retried if it was not executed, or if it is idempotent (``repeatable``):

* the server sent Retry-After (with 429 or any 5xx): it executed nothing, so every request is retried;
* the connection was refused: every request is retried, but only if the server has responded before and is probably
  restarting. A server that never responded is reported immediately;
* there was no response, or one of a proxy that has lost its server (502, 503, 504): repeatable requests are retried;
* writes are blocked, and so it was not sent: every request is retried.

All transport errors raise Unreachable, whose text contains the request.
"""

from __future__ import annotations

import asyncio
import platform
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

import aiohttp
import msgspec
from aiohttp.connector import Connection as TransportConnection
from yarl import URL

from allotment import __version__
from allotment.cluster.backoff import Backoff
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.remote.credentials import Credentials
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.remote.proxies import proxy_for

Query = Sequence[tuple[str, str]]
#: Called for each response with method, code (0: no response) and seconds until it started.
OnAnswer = Callable[[str, int, float], None]
#: Returns why writes are not allowed now; empty if they are.
WriteBlock = Callable[[], str]

#: Limits of retries after Retry-After: number, as in client-go, and total seconds.
_MAX_DELAYS = 10
LATER_SECONDS = 120.0
#: Upper limit of one Retry-After.
_LONGEST_SECONDS = 60.0
_CONNECT_SECONDS = 10.0
#: Below the 90 s after which kube-apiserver closes idle connections, to avoid requests on a closing connection.
_IDLE_SECONDS = 60.0
_BUFFER = 2**18
_ROUNDS = 3
_TLS_CLOSE_SECONDS = 0.1

#: Methods that change nothing.
_READ: Final = ("GET",)
#: Transport errors: of the library and the system, timeouts, a malformed URL.
_FAILURES: Final = (aiohttp.ClientError, OSError, TimeoutError, ValueError)
#: Errors before anything was sent to the server.
_NOT_SENT: Final = (aiohttp.ClientConnectorError, aiohttp.ClientProxyConnectionError, aiohttp.ConnectionTimeoutError)
#: Errors after which it is unknown whether the request was executed.
_INTERRUPTED: Final = (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError)
_PERMANENT: Final = (aiohttp.ClientSSLError, aiohttp.ClientConnectorDNSError)
_GATEWAY_ERRORS: Final = (502, 503, 504)
#: What the ssl module adds to its messages: "[SSL: WRONG_VERSION_NUMBER] … (_ssl.c:1006)".
_PLACE_IN_SOURCE: Final = re.compile(r"^\[[^]]*\] ?| ?\(_ssl\.c:\d+\)$")
#: The response of an API server, without a Status, for a path that it does not serve.
_NOT_SERVED: Final = "404 page not found"


class ApiRequest(NamedTuple):
    """A request. ``silence``: read timeout in seconds (0: the default; None: unlimited)."""

    method: str
    path: str
    query: Query = ()
    body: bytes | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    silence: float | None = 0
    #: Whether the request is idempotent.
    repeatable: bool = False


class ApiConnection:
    """The connections to a server. ``await close()`` at the end.

    ``retry_seconds``: how long a request is retried after its first failure. ``later_seconds``: limit of all
    Retry-After delays of a request. ``write_block`` is called before every write, and again when its connection is
    open; if it returns a reason, the write is not sent.
    """

    def __init__(
        self, target: ClusterTarget, *, timeout_seconds: float, retry_seconds: float, agent: str,
        later_seconds: float = LATER_SECONDS, on_answer: OnAnswer | None = None, write_block: WriteBlock | None = None,
    ) -> None:  # fmt: skip
        self._target = target
        self._credentials = Credentials(target)
        self._retry_seconds = retry_seconds
        self._later = later_seconds
        self._on_answer = on_answer
        self._barred = write_block
        self._headers = {"User-Agent": f"{agent}/{__version__} ({platform.system().lower()})"}
        self._timeout = _timeout(timeout_seconds)
        self._proxy = target.proxy or proxy_for(target.server)
        self._secure = urlsplit(target.server).scheme == "https"
        self._random = Random()
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._has_responded = False
        self._interrupted = False
        """Whether a request was cancelled before its response: then the library closes TLS gracefully."""

    async def close(self) -> None:
        """Close all connections; later requests raise Unreachable."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            # The event loop closes sockets in its next iterations, which a program that ends would not run.
            for _ in range(_ROUNDS):
                await asyncio.sleep(0)
            if self._interrupted:
                await asyncio.sleep(_TLS_CLOSE_SECONDS)

    def _retries(self) -> _Retries:
        return _Retries(self._retry_seconds, self._later, self._random)

    async def read(self, request: ApiRequest) -> bytes:
        """The whole response body. Raises StatusError and Unreachable."""
        tries = self._retries()
        while True:
            response = await self._answered(request, tries)
            try:
                return await response.read()
            except _FAILURES as error:
                if not (request.repeatable and tries.left()):
                    raise self._unreachable(request, error) from _cause(error)
            finally:
                _release(response)
            await tries.pause()

    @asynccontextmanager
    async def pieces(self, request: ApiRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        """Stream a response; it ends after the read timeout. Raises StatusError and Unreachable."""
        response = await self._answered(request, self._retries())
        try:
            yield self._pieces(request, response)
        finally:
            _release(response)

    async def _pieces(self, request: ApiRequest, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        try:
            async for piece in response.content.iter_any():
                yield piece
        except TimeoutError:
            return
        except _FAILURES as error:
            raise self._unreachable(request, error) from _cause(error)

    async def _answered(self, request: ApiRequest, tries: _Retries) -> aiohttp.ClientResponse:
        """A successful response; the caller releases it."""
        renewed = False
        while True:
            try:
                response = await self._sent(request)
            except _WriteBlocked:
                if not tries.left():
                    raise
                await tries.pause()
                continue
            except _FAILURES as error:
                is_temporary = self._has_responded and not isinstance(error, _PERMANENT)
                again = isinstance(error, _NOT_SENT) or (request.repeatable and isinstance(error, _INTERRUPTED))
                if not (is_temporary and again and tries.left()):
                    raise self._unreachable(request, error) from _cause(error)
                await tries.pause()
                continue
            self._has_responded = True
            if 200 <= response.status < 300:
                return response
            refusal = await self._refusal(request, response)
            if response.status == 401 and not renewed and self._credentials.forget():
                renewed = True
            elif tries.may_come(wait := _wait(response)):
                await tries.later(wait)
            elif response.status in _GATEWAY_ERRORS and request.repeatable and tries.left():
                await tries.pause()
            else:
                try:
                    raise refusal
                finally:
                    del refusal  # avoid a reference cycle with the traceback

    async def _sent(self, request: ApiRequest) -> aiohttp.ClientResponse:
        headers = [("Accept", request.accept), *await self._credentials.headers()]
        if request.body is not None:
            headers.append(("Content-Type", request.content_type))
        # A changed certificate makes a new context, and so a new connection.
        context = await self._credentials.context() if self._secure else True
        timeout = self._timeout if request.silence == 0 else _timeout(request.silence)
        self._check_write(request.method, self._url(request))
        if self._proxy and not self._proxy.startswith(("http://", "https://")):  # from the environment
            found = f"expected an http:// or https:// proxy, found {self._proxy.partition('://')[0]}://"
            raise Unreachable(f"{request.method} {self._url(request)}: {found}")
        start = time.monotonic()
        code = 0
        try:
            response = await self._opened(request).request(
                request.method, self._url(request), data=request.body, headers=headers, ssl=context,
                server_hostname=self._target.server_name or None, proxy=self._proxy or None, timeout=timeout,
                allow_redirects=False,
            )  # fmt: skip
            code = response.status
        except asyncio.CancelledError:
            self._interrupted = True
            raise
        finally:
            if self._on_answer is not None:
                self._on_answer(request.method, code, time.monotonic() - start)
        return response

    def _check_write(self, method: str, url: URL) -> None:
        """Raise WriteBlocked if the request is a write and writes are not allowed."""
        if self._barred is not None and method not in _READ and (why := self._barred()):
            raise _WriteBlocked(f"{method} {url}: not sent: {why}")

    async def _refusal(self, request: ApiRequest, response: aiohttp.ClientResponse) -> StatusError | Unreachable:
        """The error for a response: the server's Status, or one made of the text of another server, such as a proxy.

        A 404 counts only if it comes from an API server; otherwise objects would be taken for deleted.
        """
        try:
            data = await response.read()
        except _FAILURES:
            data = b""
        finally:
            _release(response)
        try:
            tree = msgspec.json.decode(data, type=dict[str, Any])
        except msgspec.DecodeError:
            tree = {}
        code = response.status
        if tree.get("kind") == "Status":
            return StatusError({**tree, "code": tree.get("code") or code})
        text = data[:200].decode("utf-8", "replace").strip() or response.reason or ""
        if code == 404 and text != _NOT_SERVED:
            return Unreachable(f"{request.method} {self._url(request)}: 404, not from an API server: {text}")
        return StatusError(status(code, _REASONS.get(code, ""), f"{response.url} responded with {code}: {text}"))

    def _opened(self, request: ApiRequest) -> aiohttp.ClientSession:
        if self._closed:  # a new session would never be closed
            raise Unreachable(f"{request.method} {self._url(request)}: not sent: the client was closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # Each watch uses a connection: no limit.
                connector=_WriteCheckingConnector(self._check_write, limit=0, keepalive_timeout=_IDLE_SECONDS),
                headers=self._headers, cookie_jar=aiohttp.DummyCookieJar(), read_bufsize=_BUFFER,
            )  # fmt: skip
        return self._session

    def _url(self, request: ApiRequest) -> URL:
        query = f"?{urlencode(list(request.query))}" if request.query else ""
        return URL(f"{self._target.server}{request.path}{query}", encoded=True)

    def _unreachable(self, request: ApiRequest, error: Exception) -> Unreachable:
        return Unreachable(f"{request.method} {self._url(request)}: {_describe(error)}")


class _WriteBlocked(Unreachable):
    """Raised for a write while writes are not allowed."""


class _WriteCheckingConnector(aiohttp.TCPConnector):
    """Checks after connecting whether a write is still allowed, since connecting may take long."""

    def __init__(self, check: Callable[[str, URL], None], **more: Any) -> None:
        super().__init__(**more)
        self._check = check

    async def connect(self, req: Any, traces: Any, timeout: aiohttp.ClientTimeout) -> TransportConnection:
        """Open a connection for a request that is sent immediately."""
        connection = await super().connect(req, traces, timeout)
        try:
            self._check(req.method, req.url)
        except BaseException:
            connection.release()
            raise
        return connection


class _Retries:
    """The retries of one request."""

    def __init__(self, seconds: float, later: float, random: Random) -> None:
        self._retry_seconds = seconds
        self._random = random
        self._until = 0.0
        self._backoff = Backoff(random, first=0.1, longest=2.0)
        self._later = _MAX_DELAYS
        self._later_seconds = later

    def left(self) -> bool:
        """Whether to retry after a failure."""
        now = time.monotonic()
        if not self._until:
            self._until = now + self._retry_seconds
        return now < self._until

    async def pause(self) -> None:
        """Wait before the next try."""
        await asyncio.sleep(min(self._backoff.next(), max(self._until - time.monotonic(), 0.0)))

    def may_come(self, wait: float | None) -> bool:
        """Whether to obey a Retry-After."""
        return wait is not None and self._later > 0 and wait <= self._later_seconds

    async def later(self, wait: float | None) -> None:
        """Wait for the Retry-After with jitter, so that clients do not retry together."""
        assert wait is not None
        self._later -= 1
        self._later_seconds -= wait
        await asyncio.sleep(wait * (1 + self._random.random() / 2))


def _release(response: aiohttp.ClientResponse) -> None:
    """Release the connection; abort one with unread data, since a TLS shutdown depends on the server."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.release()


def _timeout(silence: float | None) -> aiohttp.ClientTimeout:
    # connect: in total, including the proxy; sock_connect: to one address.
    return aiohttp.ClientTimeout(
        total=None, connect=3 * _CONNECT_SECONDS, sock_connect=_CONNECT_SECONDS, sock_read=silence
    )


_REASONS: Final = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed",
    409: "Conflict", 410: "Expired", 413: "RequestEntityTooLarge", 415: "UnsupportedMediaType", 422: "Invalid",
    429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


def status(code: int, reason: str, message: str) -> dict[str, Any]:
    """A Status object as servers return it."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code}  # fmt: skip


def _wait(response: aiohttp.ClientResponse) -> float | None:
    """The Retry-After of a response in seconds; None if it has none."""
    if response.status != 429 and response.status < 500:
        return None
    text = response.headers.get("Retry-After", "")
    return min(float(text), _LONGEST_SECONDS) if text.isdecimal() else None


def _cause(error: Exception) -> Exception:
    """The system or TLS error that the library has wrapped."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return error.certificate_error
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error
    return error


def _describe(error: Exception) -> str:
    cause = _cause(error)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return f"the proxy {error.host}:{error.port} does not respond: {_error_text(cause)}"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy responded with {error.status}: {error.message}"
    if isinstance(cause, TimeoutError):
        return f"no response in time: {_error_text(cause)}"
    return _error_text(cause)


def _error_text(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return _PLACE_IN_SOURCE.sub("", str(error)) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
