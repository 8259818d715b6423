"""Passes requests to aggregated API servers, with the user in headers, and their responses back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Final
from urllib.parse import quote as percent_encoded

from allotment.apiserver.aggregation.registry import ServedApi
from allotment.apiserver.http_messages import AnyResponse, Request, Response, Streaming
from allotment.apiserver.kinds.kind import User
from allotment.apiserver.outbound.client import Answer, OutboundClient, Target
from allotment.apiserver.outbound.errors import CallFailed
from allotment.apiserver.outbound.http1 import OutboundRequest

#: Headers of one connection, or of the client's own identity.
_DROPPED: Final = frozenset(
    {"authorization", "connection", "content-length", "host", "keep-alive", "proxy-authenticate",
     "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"}
)  # fmt: skip
_DROPPED_PREFIXES: Final = ("impersonate-", "x-remote-", "sec-websocket-")
#: Bytes of a response that is passed on as a whole, with its length.
_MOST_BUFFERED: Final = 1 << 20


async def forward(client: OutboundClient, served: ServedApi, request: Request, user: User) -> AnyResponse:
    """The response of the server of an aggregated API."""
    if served.outcome is None or not served.outcome.is_available:
        return _unavailable("service unavailable")
    headers = (*forwarded(request), *_identity(user))
    return await proxied(client, served.api.target, request, request.path, headers)


async def proxied(
    client: OutboundClient, target: Target, request: Request, path: str, headers: tuple[tuple[str, str], ...]
) -> AnyResponse:
    """The response of another server to a request, with this path and these headers."""
    where = f"{path}?{request.query}" if request.query else path
    outbound = OutboundRequest(request.method, where, target.host, headers, request.body)
    try:
        answer = await client.send(target, outbound)
    except CallFailed as error:
        return _unavailable(f"error trying to reach service: {error.cause}")
    answered = tuple((name, value) for name, value in answer.head.headers if name not in _DROPPED)
    length = answer.head.named.get("content-length", "")
    is_short = length.isdigit() and int(length) <= _MOST_BUFFERED
    if not is_short and answer.head.code not in (204, 304):
        return Streaming(answer.head.code, answered, _Pieces(answer))
    try:
        return Response(answer.head.code, answered, await answer.read())
    except CallFailed as error:
        return _unavailable(f"error trying to reach service: {error.cause}")


def forwarded(request: Request) -> Iterator[tuple[str, str]]:
    """The headers of a request that another server gets."""
    for name, value in request.headers.items():
        if name not in _DROPPED and not name.startswith(_DROPPED_PREFIXES):
            yield name, value


def _identity(user: User) -> Iterator[tuple[str, str]]:
    """The headers in which servers find the user."""
    yield "x-remote-user", user.name
    if user.uid:
        yield "x-remote-uid", user.uid
    for group in user.groups:
        yield "x-remote-group", group
    for name, values in user.extra.items():
        for value in values:
            yield f"x-remote-extra-{percent_encoded(name.lower(), safe='')}", value


class _Pieces(AsyncIterator[bytes]):
    """The body of an answer. ``aclose`` closes its connection, even if no piece was read."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._answer.body)
        except CallFailed as error:
            raise ConnectionError(error.cause) from None

    async def aclose(self) -> None:
        await self._answer.close()


def _unavailable(message: str) -> Response:
    """Go's plain text error."""
    headers = (("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff"))
    return Response(503, headers, f"{message}\n".encode())
