"""The HTTP API for programs: ``/api/v1/NAME`` for each query of the table, and its description."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from msgspec.structs import fields
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from allotment.errors import InputError
from allotment.queries.openapi import DESCRIPTION, PREFIX, openapi
from allotment.queries.problems import problem
from allotment.queries.table import Query, query_named
from allotment.watched.view import ClusterView
from allotment.web.limited_answers import LimitedAnswers
from allotment.web.problems import ProblemError, rejected

#: What the visitor of a request may see of the cluster.
ViewOf = Callable[[Request], Awaitable[ClusterView]]

#: The largest body of a request, in bytes.
MAX_BODY: Final = 5 * 1024 * 1024
#: The number of answers that are computed at the same time; others wait.
_MOST_AT_ONCE: Final = 4
#: Requests by URL that are computed or wait: they are short, but for the first one.
_MOST_BY_URL: Final = 200
#: The same for posted requests, which may have manifests and take many seconds; they never delay the others.
_MOST_POSTED: Final = 3
_JSON: Final = "application/json"


def program_routes(view_of: ViewOf, stopping: asyncio.Event) -> list[BaseRoute]:
    """Return the routes of the API. ``stopping``: set when the server ends. Errors are those of `respond_to_error`."""
    endpoint = _Endpoint(view_of, stopping)
    return [
        Route(DESCRIPTION, _describe, methods=["GET"]),
        Route(f"{PREFIX}{{name}}", endpoint.answer, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
    ]


async def _describe(request: Request) -> Response:
    base = request.scope.get("root_path", "")
    servers = {"servers": [{"url": base}]} if base else {}
    return Response(msgspec.json.encode({**openapi(), **servers}), media_type=_JSON)


class _Endpoint:
    """Answers queries in threads, a few at a time."""

    def __init__(self, view_of: ViewOf, stopping: asyncio.Event) -> None:
        self._view_of = view_of
        self._by_url = LimitedAnswers(_MOST_AT_ONCE, stopping, _MOST_BY_URL)
        self._posted = LimitedAnswers(_MOST_POSTED, stopping)

    async def answer(self, request: Request) -> Response:
        """Answer a request. Raises ProblemError and InputError."""
        name = request.path_params["name"]
        try:
            query = query_named(name)
        except InputError as error:
            raise rejected(404, "unknown-query", "Not found", error.message, error.hint) from None
        methods = ["GET", "HEAD", "POST"] if query.is_get else ["POST"]
        if request.method not in methods:
            detail = f"{name} does not accept {request.method}"
            found = problem("method", "Method not allowed", 405, detail, f"use {' or '.join(methods)}")
            raise ProblemError(found, {"Allow": ", ".join(methods)})
        view = await self._view_of(request)  # before anything else is read of an unauthorized request
        sent = await _body(request, query) if request.method == "POST" else _of_url(request, query)
        answers = self._posted if request.method == "POST" else self._by_url
        body = await answers.of(lambda: _encoded(query, view, sent))
        return Response(body, media_type=_JSON, headers=_state_of(view))


def _encoded(query: Query[Any], view: ClusterView, sent: msgspec.Struct) -> bytes:
    return msgspec.json.encode(query.answer(view, sent))


def _state_of(view: ClusterView) -> dict[str, str]:
    """Return headers that say which state of the cluster an answer is about."""
    return {
        "Cache-Control": "no-store",
        "Allotment-Revision": str(view.revision),
        "Allotment-Connected": "true" if view.connected else "false",
        **({"Allotment-Seen-At": view.seen_at} if view.seen_at else {}),
    }


async def _body(request: Request, query: Query[Any]) -> msgspec.Struct:
    """Read the request of a body. Raises InputError and ProblemError."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _JSON:
        detail = f"expected Content-Type {_JSON}, found {kind or 'none'}"
        raise rejected(415, "media-type", "The request is not JSON", detail)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            detail = f"expected at most {MAX_BODY >> 20} MiB"
            raise rejected(413, "too-large", "The request is too large", detail, "send fewer manifests at a time")
    decoded: msgspec.Struct = query.decoded(bytes(body) or b"{}")
    return decoded


def _of_url(request: Request, query: Query[Any]) -> msgspec.Struct:
    """Read the request of a URL. Raises InputError."""
    lists = {each.encode_name for each in fields(query.request) if each.default == ()}
    parameters = request.query_params
    given = {name: parameters.getlist(name) if name in lists else parameters[name] for name in parameters}
    converted: msgspec.Struct = query.converted(given, of_url=True)
    return converted
