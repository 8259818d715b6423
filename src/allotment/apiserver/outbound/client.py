"""The client with which the API server calls webhooks and aggregated API servers: HTTPS, connections are reused."""

from __future__ import annotations

import asyncio
import base64
import posixpath
import socket
import ssl
from binascii import Error as NotBase64
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from allotment.apiserver import go_json
from allotment.apiserver.kinds.kind import StoreReader
from allotment.apiserver.outbound.errors import CallFailed, dial_failed, refused_by_server, timed_out
from allotment.apiserver.outbound.http1 import Broken, Head, HttpConnection, OutboundRequest
from allotment.apiserver.outbound.services import Endpoint, Service, joined, resolve
from allotment.apiserver.outbound.tls import TlsConnection, Trust, tls_context, tls_problem
from allotment.apiserver.streams.kubelets import Connection, Kubelets
from allotment.cluster.tcp_connection import StreamConnection
from allotment.model.trees import Tree

#: Connections that are kept for the next request to the same server.
_MAX_IDLE: Final = 25
#: Servers for which connections are kept.
_MAX_IDLE_SERVERS: Final = 32
_HTTPS_PORT: Final = 443
_NO_KIND: Final = "couldn't get version/kind; json parse error"
_GO_TYPE_META: Final = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
)
_JSON_TYPES: Final = {bool: "bool", float: "number", int: "number", list: "array", str: "string"}
_MAX_BODY: Final = 64 << 20
#: Seconds in which a server has to accept a connection, and to establish TLS on it, as for Go's HTTP client.
_MAX_DIAL_SECONDS: Final = 30.0
_MAX_HANDSHAKE_SECONDS: Final = 10.0


class Target(NamedTuple):
    """A server. ``server``: a Service, the host and port of a URL, or an endpoint such as a port of a pod."""

    server: Service | tuple[str, int] | Endpoint
    trust: Trust = Trust()

    @property
    def host(self) -> str:
        """The name in the server's certificate."""
        return self.server.host if isinstance(self.server, Service) else self.server[0]


class Answer:
    """An answer whose body has not been read. ``close`` it unless the body was read to its end."""

    def __init__(self, head: Head, body: AsyncGenerator[bytes, None], connection: HttpConnection) -> None:
        self.head = head
        self.body = body
        self._connection = connection

    async def read(self, limit: int = _MAX_BODY) -> bytes:
        """The whole body, of up to ``limit`` bytes. Raises CallFailed."""
        content = bytearray()
        try:
            async for piece in self.body:
                content += piece
                if len(content) > limit:
                    raise CallFailed(f"the response exceeds {limit} bytes")
        finally:
            await self.close()
        return bytes(content)

    async def close(self) -> None:
        """Close the connection, if the body was not read to its end."""
        await self.body.aclose()
        if not self._connection.is_reusable:
            await self._connection.close()


class _Key(NamedTuple):
    address: tuple[str, int]
    trust: Trust
    name: str


class OutboundClient:
    """Sends requests to Services of the lab and to other servers. ``kubelets``: connect to the ports of pods."""

    def __init__(self, reader: StoreReader, kubelets: Kubelets | None = None) -> None:
        self._reader, self._kubelets = reader, kubelets
        self._idle: dict[_Key, list[HttpConnection]] = {}

    async def close(self) -> None:
        """Close idle connections."""
        idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                await connection.close()

    async def post(self, config: Tree, body: bytes, seconds: float, *, timeout_parameter: bool = True) -> Any:
        """Send JSON to a ``clientConfig`` and return the JSON of the answer. Raises CallFailed.

        ``timeout_parameter``: whether the URL tells the timeout, as for admission webhooks.
        """
        target, url = target_of(config)
        query = f"?timeout={seconds:g}s" if timeout_parameter else ""
        headers = (("accept", "application/json, */*"), ("content-type", "application/json"))
        request = OutboundRequest("POST", urlsplit(url).path + query, urlsplit(url).netloc, headers, body)
        try:
            async with asyncio.timeout(seconds):
                answer = await self.send(target, request)
                content = await answer.read()
        except TimeoutError:
            raise timed_out().during("POST", url + query) from None
        except CallFailed as error:
            raise error.during("POST", url + query) from None
        if not 200 <= answer.head.code <= 206:
            raise refused_by_server(answer.head.code, answer.head.named, content)
        if not content:
            media = answer.head.named.get("content-type", "")
            raise CallFailed(f"0-length response with status code: {answer.head.code} and content type: {media}")
        try:
            decoded = go_json.decode(content)
        except ValueError as error:
            raise CallFailed(f"{_NO_KIND}: {error}") from None
        if type(decoded) is not dict:
            found = _JSON_TYPES.get(type(decoded), "null")
            raise CallFailed(f"{_NO_KIND}: json: cannot unmarshal {found} into Go value of type {_GO_TYPE_META}")
        return decoded

    async def send(self, target: Target, request: OutboundRequest) -> Answer:
        """Send a request, and return once the head of the answer has arrived. Raises CallFailed."""
        endpoint = self._endpoint(target)
        key = _Key((endpoint.host, endpoint.port), target.trust, target.host)
        idle = self._idle.get(key)
        if idle:
            with suppress(Broken):
                return await self._exchange(idle.pop(), key, request)
        connection = HttpConnection(await self._connect(endpoint, key))
        try:
            return await self._exchange(connection, key, request)
        except Broken:
            raise CallFailed("EOF") from None

    def _endpoint(self, target: Target) -> Endpoint:
        if isinstance(target.server, Service):
            return resolve(target.server, self._reader)
        if isinstance(target.server, Endpoint):
            return target.server
        host, port = target.server
        return Endpoint(host, port, joined(host, port))

    async def _exchange(self, connection: HttpConnection, key: _Key, request: OutboundRequest) -> Answer:
        try:
            head = await connection.send(request)
        except BaseException as error:
            await connection.close()
            if isinstance(error, OSError):
                raise _failed(error) from None
            raise
        return Answer(head, self._body(connection, head, key, request.method), connection)

    async def _body(
        self, connection: HttpConnection, head: Head, key: _Key, method: str
    ) -> AsyncGenerator[bytes, None]:
        """The body; at its end the connection is kept or closed."""
        try:
            async for piece in connection.body(head, method):
                yield piece
        except OSError as error:
            raise _failed(error) from None
        finally:
            idle = self._idle.setdefault(key, [])
            if connection.is_reusable and len(idle) < _MAX_IDLE:
                idle.append(connection)
            else:
                connection.is_reusable = False
                await connection.close()
            while len(self._idle) > _MAX_IDLE_SERVERS:
                for unused in self._idle.pop(next(iter(self._idle))):
                    await unused.close()

    async def _connect(self, endpoint: Endpoint, key: _Key) -> Connection:
        try:
            async with asyncio.timeout(_MAX_DIAL_SECONDS):
                raw = await self._dial(endpoint)
        except TimeoutError:
            raise CallFailed(f"dial tcp {endpoint.shown}: i/o timeout") from None
        if not key.trust.is_encrypted:
            return raw
        try:
            secure = TlsConnection(raw, key.trust, key.name)
            async with asyncio.timeout(_MAX_HANDSHAKE_SECONDS):
                await secure.handshake()
        except BaseException as error:
            await raw.close()
            if isinstance(error, TimeoutError):
                raise CallFailed("net/http: TLS handshake timeout") from None
            if isinstance(error, OSError):
                raise _failed(error) from None
            raise
        return secure

    async def _dial(self, endpoint: Endpoint) -> Connection:
        if endpoint.pod is not None and self._kubelets is not None:
            try:
                return await self._kubelets.port(endpoint.pod, endpoint.port)
            except OSError:
                raise dial_failed(endpoint.shown, "connection refused") from None
        return await _tcp(endpoint)


async def _tcp(endpoint: Endpoint) -> Connection:
    """A TCP connection to the first address of a host that accepts it."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError:
        raise CallFailed(f"dial tcp: lookup {endpoint.host}: no such host") from None
    failures: list[CallFailed] = []
    for host in (str(address[0]) for _, _, _, _, address in found):
        try:
            return StreamConnection(*await asyncio.open_connection(host, endpoint.port))
        except OSError as error:
            reason = "connection refused" if isinstance(error, ConnectionRefusedError) else _reason(error)
            failures.append(dial_failed(joined(host, endpoint.port), reason))
    raise failures[0]


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _failed(error: OSError) -> CallFailed:
    if isinstance(error, ssl.SSLError):
        return CallFailed(tls_problem(error))
    return CallFailed("EOF" if isinstance(error, ConnectionResetError) else _reason(error))


def target_of(config: Tree) -> tuple[Target, str]:
    """The server and the URL of a ``clientConfig``, as in errors. Raises CallFailed."""
    try:
        bundle = base64.b64decode(config.get("caBundle") or "", validate=True)
    except NotBase64:
        raise CallFailed("unable to load root certificates: unable to parse bytes as PEM block") from None
    trust = Trust(bundle)
    tls_context(trust)
    service: Mapping[str, Any] | None = config.get("service")
    if service:
        port = service.get("port") or _HTTPS_PORT
        server = Service(service["namespace"], service["name"], port)
        return Target(server, trust), f"https://{server.host}:{port}{_clean(service.get('path') or '')}"
    try:
        url = urlsplit(config["url"])
        host, port = url.hostname or "", url.port or _HTTPS_PORT
    except ValueError as error:
        raise CallFailed(f"Unparsable URL: {error}") from None
    return Target((host, port), trust), f"https://{url.netloc}{_clean(url.path)}"


def _clean(path: str) -> str:
    """A path as client-go sends it.

    >>> _clean("a/b/"), _clean("")
    ('/a/b', '/')
    """
    parts: Sequence[str] = [part for part in path.split("/") if part]
    return posixpath.normpath("/" + "/".join(parts))
