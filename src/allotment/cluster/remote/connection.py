"""Requests to one API server over HTTP: who we are there, which way leads there, and when to try again.

A request is tried again where that cannot do it twice, or where doing it twice is doing it once:

* the server says when to come back (Retry-After, with 429 or any 5xx): it has done nothing, so whatever was asked;
* nothing could be sent, because nothing listens: whatever was asked, too, but only from a server that answered us
  before and so is coming back, as when it is restarted. One that never answered is reported at once;
* no answer came, or one of a proxy that has lost its server (502, 503, 504): what is ``repeatable``;
* it may not be written now, and so was not sent: whatever was asked.

Everything that goes wrong on the way is Unreachable and says what was tried.
"""

from __future__ import annotations

import asyncio
import platform
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

import aiohttp
import msgspec
from aiohttp.connector import Connection as Connected
from yarl import URL

from allotment import __version__
from allotment.cluster.backoff import Backoff
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.remote.credentials import Credentials
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.remote.proxies import proxy_for

Query = Sequence[tuple[str, str]]
#: Told of each answer: method, code (0: none came), seconds until it began.
OnAnswer = Callable[[str, int, float], None]
#: Why nothing may be written now; empty while it may.
WriteBlock = Callable[[], str]

#: How often a server may say "later", as in client-go, and for how long in all.
_LATER = 10
LATER_SECONDS = 120.0
#: One "later" is no longer than this.
_LONGEST_SECONDS = 60.0
_CONNECT_SECONDS = 10.0
#: kube-apiserver closes a connection that was idle for 90 s: we must be first, or a request would meet the closing.
_IDLE_SECONDS = 60.0
_BUFFER = 2**18
_ROUNDS = 3
_FAREWELL_SECONDS = 0.1

#: Methods that change nothing.
_READ: Final = ("GET",)
#: What can go wrong on the way: errors of the library and the system, timeouts, a malformed URL.
_FAILURES: Final = (aiohttp.ClientError, OSError, TimeoutError, ValueError)
#: Errors after which nothing has reached the server.
_NOT_SENT: Final = (aiohttp.ClientConnectorError, aiohttp.ClientProxyConnectionError, aiohttp.ConnectionTimeoutError)
#: Errors after which nobody knows whether the request was carried out.
_BROKEN_OFF: Final = (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError)
_HOPELESS: Final = (aiohttp.ClientSSLError, aiohttp.ClientConnectorDNSError)
_LOST_ITS_SERVER: Final = (502, 503, 504)
#: What an API server says, and no Status with it, of a path that it does not serve.
_NOT_SERVED: Final = "404 page not found"


class ApiRequest(NamedTuple):
    """A request. ``silence``: seconds that its answer may pause (0: as all others; None: for ever)."""

    method: str
    path: str
    query: Query = ()
    body: bytes | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    silence: float | None = 0
    #: Whether to ask twice is to ask once.
    repeatable: bool = False


class ApiConnection:
    """The way to a server, with all its connections. ``await close()`` at the end.

    ``patience_seconds``: how long after its first failure a request is tried again. ``later_seconds``: how long in all
    a server may have it wait. ``barred`` is asked before every try to write, and again when its connection is there;
    what it bars is not sent.
    """

    def __init__(
        self, target: ClusterTarget, *, timeout_seconds: float, retry_seconds: float, agent: str,
        later_seconds: float = LATER_SECONDS, on_answer: OnAnswer | None = None, write_block: WriteBlock | None = None,
    ) -> None:  # fmt: skip
        self._target = target
        self._credentials = Credentials(target)
        self._patience = retry_seconds
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
        self._met = False
        self._broken_off = False
        """Whether a request was given up while nothing had come yet: then the library lets TLS say farewell."""

    async def close(self) -> None:
        """Let go of all connections; whoever asks afterwards is told Unreachable."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            # The event loop closes sockets in its next rounds, of which a program that ends would give it none.
            for _ in range(_ROUNDS):
                await asyncio.sleep(0)
            if self._broken_off:
                await asyncio.sleep(_FAREWELL_SECONDS)

    def _tries(self) -> _Tries:
        return _Tries(self._patience, self._later, self._random)

    async def read(self, question: ApiRequest) -> bytes:
        """The whole answer. Raises StatusError and Unreachable."""
        tries = self._tries()
        while True:
            response = await self._answered(question, tries)
            try:
                return await response.read()
            except _FAILURES as error:
                if not (question.repeatable and tries.left()):
                    raise self._unreachable(question, error) from _cause(error)
            finally:
                _leave(response)
            await tries.pause()

    @asynccontextmanager
    async def pieces(self, question: ApiRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        """An answer that goes on and on, as it comes; it ends if it pauses for too long. Raises StatusError and
        Unreachable."""
        response = await self._answered(question, self._tries())
        try:
            yield self._pieces(question, response)
        finally:
            _leave(response)

    async def _pieces(self, question: ApiRequest, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        try:
            async for piece in response.content.iter_any():
                yield piece
        except TimeoutError:
            return
        except _FAILURES as error:
            raise self._unreachable(question, error) from _cause(error)

    async def _answered(self, question: ApiRequest, tries: _Tries) -> aiohttp.ClientResponse:
        """An answer that is no refusal; whoever gets it releases it."""
        renewed = False
        while True:
            try:
                response = await self._sent(question)
            except _NotNow:
                if not tries.left():
                    raise
                await tries.pause()
                continue
            except _FAILURES as error:
                hopeful = self._met and not isinstance(error, _HOPELESS)
                again = isinstance(error, _NOT_SENT) or (question.repeatable and isinstance(error, _BROKEN_OFF))
                if not (hopeful and again and tries.left()):
                    raise self._unreachable(question, error) from _cause(error)
                await tries.pause()
                continue
            self._met = True
            if 200 <= response.status < 300:
                return response
            refusal = await self._refusal(question, response)
            if response.status == 401 and not renewed and self._credentials.forget():
                renewed = True
            elif tries.may_come(wait := _wait(response)):
                await tries.later(wait)
            elif response.status in _LOST_ITS_SERVER and question.repeatable and tries.left():
                await tries.pause()
            else:
                try:
                    raise refusal
                finally:
                    del refusal  # this frame is in its traceback: a cycle, and it may be long until those go

    async def _sent(self, question: ApiRequest) -> aiohttp.ClientResponse:
        headers = [("Accept", question.accept), *await self._credentials.headers()]
        if question.body is not None:
            headers.append(("Content-Type", question.content_type))
        # A certificate that has changed makes another context, and so another connection.
        context = await self._credentials.context() if self._secure else True
        timeout = self._timeout if question.silence == 0 else _timeout(question.silence)
        self._not_now(question.method, self._url(question))
        if self._proxy and not self._proxy.startswith(("http://", "https://")):  # from the environment
            found = f"expected an http:// or https:// proxy, found {self._proxy.partition('://')[0]}://"
            raise Unreachable(f"{question.method} {self._url(question)}: {found}")
        began = time.monotonic()
        code = 0
        try:
            response = await self._opened(question).request(
                question.method, self._url(question), data=question.body, headers=headers, ssl=context,
                server_hostname=self._target.server_name or None, proxy=self._proxy or None, timeout=timeout,
                allow_redirects=False,
            )  # fmt: skip
            code = response.status
        except asyncio.CancelledError:
            self._broken_off = True
            raise
        finally:
            if self._on_answer is not None:
                self._on_answer(question.method, code, time.monotonic() - began)
        return response

    def _not_now(self, method: str, url: URL) -> None:
        """Raises what is said of a request that may not be sent."""
        if self._barred is not None and method not in _READ and (why := self._barred()):
            raise _NotNow(f"{method} {url}: not sent: {why}")

    async def _refusal(self, question: ApiRequest, response: aiohttp.ClientResponse) -> StatusError | Unreachable:
        """The server's own Status; where something else answered (a proxy), one made of what it said.

        But that something is not there only an API server can say: whoever believed others would take it for gone.
        """
        try:
            data = await response.read()
        except _FAILURES:
            data = b""
        finally:
            _leave(response)
        try:
            tree = msgspec.json.decode(data, type=dict[str, Any])
        except msgspec.DecodeError:
            tree = {}
        code = response.status
        if tree.get("kind") == "Status":
            return StatusError({**tree, "code": tree.get("code") or code})
        said = data[:200].decode("utf-8", "replace").strip() or response.reason or ""
        if code == 404 and said != _NOT_SERVED:
            return Unreachable(f"{question.method} {self._url(question)}: 404, but not from an API server: {said}")
        return StatusError(status(code, _REASONS.get(code, ""), f"{response.url} answered {code}: {said}"))

    def _opened(self, question: ApiRequest) -> aiohttp.ClientSession:
        if self._closed:  # by whoever ends, while this request was on its way here: nobody would close another one
            raise Unreachable(f"{question.method} {self._url(question)}: not sent: the client was closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # Watches hold a connection each: no limit.
                connector=_Gate(self._not_now, limit=0, keepalive_timeout=_IDLE_SECONDS),
                headers=self._headers, cookie_jar=aiohttp.DummyCookieJar(), read_bufsize=_BUFFER,
            )  # fmt: skip
        return self._session

    def _url(self, question: ApiRequest) -> URL:
        query = f"?{urlencode(list(question.query))}" if question.query else ""
        return URL(f"{self._target.server}{question.path}{query}", encoded=True)

    def _unreachable(self, question: ApiRequest, error: Exception) -> Unreachable:
        return Unreachable(f"{question.method} {self._url(question)}: {_words(error)}")


class _NotNow(Unreachable):
    """It may not be written now."""


class _Gate(aiohttp.TCPConnector):
    """To open a connection may take long, and a process may stand still: then it is asked again whether to send."""

    def __init__(self, ask: Callable[[str, URL], None], **more: Any) -> None:
        super().__init__(**more)
        self._ask = ask

    async def connect(self, req: Any, traces: Any, timeout: aiohttp.ClientTimeout) -> Connected:
        """A connection, for a request that is sent at once."""
        connection = await super().connect(req, traces, timeout)
        try:
            self._ask(req.method, req.url)
        except BaseException:
            connection.release()
            raise
        return connection


class _Tries:
    """How often and how long one request has been tried."""

    def __init__(self, patience: float, later: float, random: Random) -> None:
        self._patience = patience
        self._random = random
        self._until = 0.0
        self._backoff = Backoff(random, first=0.1, longest=2.0)
        self._later = _LATER
        self._later_seconds = later

    def left(self) -> bool:
        """Whether a failure may be followed by another try."""
        now = time.monotonic()
        if not self._until:
            self._until = now + self._patience
        return now < self._until

    async def pause(self) -> None:
        """Before the next one."""
        await asyncio.sleep(min(self._backoff.next(), max(self._until - time.monotonic(), 0.0)))

    def may_come(self, wait: float | None) -> bool:
        """Whether to do as a server says that wants to be asked later."""
        return wait is not None and self._later > 0 and wait <= self._later_seconds

    async def later(self, wait: float | None) -> None:
        """Wait as long as it said, and a little, so that not all come back together."""
        assert wait is not None
        self._later -= 1
        self._later_seconds -= wait
        await asyncio.sleep(wait * (1 + self._random.random() / 2))


def _leave(response: aiohttp.ClientResponse) -> None:
    """Give the connection back; one with more to come is cut off: a TLS goodbye takes as long as the server likes."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.release()


def _timeout(silence: float | None) -> aiohttp.ClientTimeout:
    # connect: all of it, with what a proxy needs to reach the server; sock_connect: to one address.
    return aiohttp.ClientTimeout(
        total=None, connect=3 * _CONNECT_SECONDS, sock_connect=_CONNECT_SECONDS, sock_read=silence
    )


_REASONS: Final = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed",
    409: "Conflict", 410: "Expired", 413: "RequestEntityTooLarge", 415: "UnsupportedMediaType", 422: "Invalid",
    429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


def status(code: int, reason: str, message: str) -> dict[str, Any]:
    """A Status such as servers answer with."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code}  # fmt: skip


def _wait(response: aiohttp.ClientResponse) -> float | None:
    """How long the server wants us to wait before we ask again; None if it did not say so."""
    if response.status != 429 and response.status < 500:
        return None
    said = response.headers.get("Retry-After", "")
    return min(float(said), _LONGEST_SECONDS) if said.isdecimal() else None


def _cause(error: Exception) -> Exception:
    """The error of the system or of TLS that the library has wrapped."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return error.certificate_error
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error
    return error


def _words(error: Exception) -> str:
    cause = _cause(error)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return f"the proxy {error.host}:{error.port} does not answer: {_said(cause)}"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}: {error.message}"
    if isinstance(cause, TimeoutError):
        return f"no answer in time: {_said(cause)}"
    return _said(cause)


def _said(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
