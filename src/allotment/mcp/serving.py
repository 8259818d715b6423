"""Serves the tools over standard input and output, or over HTTP (streamable HTTP) with a token."""

from __future__ import annotations

import hmac
import socket
from typing import Final

import uvicorn
from mcp.server.stdio import stdio_server
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from allotment.errors import InputError
from allotment.mcp.server import ViewNow, server
from allotment.queries.problems import MEDIA_TYPE, problem

#: The path of the HTTP transport.
PATH: Final = "/mcp"
#: The largest message, in bytes.
_MAX_BODY: Final = 5 * 1024 * 1024
_BEARER: Final = "bearer "


async def serve_stdio(view_now: ViewNow) -> None:
    """Serve one client on standard input and output, until it closes them."""
    tools = server(view_now)
    async with stdio_server() as (received, sent):
        await tools.run(received, sent, tools.create_initialization_options())


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 is any free one. Raises InputError."""
    try:
        found = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise InputError(f"--http: cannot listen on {host}:{port}: {reason}", "choose another port") from None
    # asyncio does so only for sockets that it creates; otherwise the body of a response waits 40 ms for an ACK.
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


async def serve_http(view_now: ViewNow, host: str, listening: socket.socket, token: str) -> None:
    """Serve clients over HTTP until the process gets a signal to end."""
    config = uvicorn.Config(http_application(view_now, host, token), log_level="warning", lifespan="on")
    await uvicorn.Server(config).serve([listening])


def http_application(view_now: ViewNow, host: str, token: str) -> ASGIApp:
    """Return the application: every request needs the token, and from a page of this machine, too."""
    tools = server(view_now)
    # Without sessions: every request is answered from the newest state, and copies need to share nothing.
    application = tools.streamable_http_app(
        streamable_http_path=PATH, json_response=True, stateless_http=True, host=host, max_request_body_size=_MAX_BODY
    )
    return _TokenRequired(application, token)


class _TokenRequired:
    """Rejects requests without the token."""

    def __init__(self, application: ASGIApp, token: str) -> None:
        self._application = application
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_allowed(Headers(scope=scope).get("authorization", "")):
            await self._application(scope, receive, send)
            return
        found = problem(
            "token", "The token is missing or wrong", 401, "expected the header Authorization: Bearer TOKEN"
        )
        response = JSONResponse(
            found.to_dict(), found.status, media_type=MEDIA_TYPE, headers={"WWW-Authenticate": "Bearer"}
        )
        await response(scope, receive, send)

    def _is_allowed(self, authorization: str) -> bool:
        given = authorization[len(_BEARER) :] if authorization.lower().startswith(_BEARER) else ""
        return hmac.compare_digest(given.strip().encode(), self._token)
