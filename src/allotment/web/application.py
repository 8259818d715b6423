"""The server as an ASGI application: the page, its JSON, the stream of revisions, and the HTTP API."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from allotment.decoding import decodable
from allotment.errors import InputError
from allotment.screens.visibility import VisitorRights, visible_to
from allotment.watched.cluster import WatchedCluster
from allotment.watched.view import ClusterView
from allotment.web.access import Access, TokenAccess, below_base, keep_token, token_of, unauthorized, without_token
from allotment.web.assets import asset, page
from allotment.web.connections import ending_with
from allotment.web.lab_actions import ACTIONS, LabAction
from allotment.web.options import WebOptions
from allotment.web.problems import ProblemError, error_handlers, rejected, respond_to_error
from allotment.web.program_api import program_routes
from allotment.web.revisions import Past, revisions
from allotment.web.screen_answers import POSTED, SCREENS, Answer, Answers, ScreenRequest
from allotment.web.security import Protection

_JSON: Final = "application/json"
_Endpoint = Callable[[Request], Awaitable[Response]]


class _Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    token: str


class WebServer:
    """One server: ``app`` serves its requests, ``run`` keeps the cluster that they are about current."""

    def __init__(self, watched: WatchedCluster, options: WebOptions) -> None:
        self.watched = watched
        self.stopping = asyncio.Event()
        self.token = "" if options.in_cluster else options.token or secrets.token_urlsafe(24)
        self._access = self._access_of(options)
        self._catalog = options.catalog
        self._past = Past(watched)
        self._answers = Answers(self.stopping)
        self._process = secrets.token_hex(4)
        app = Starlette(routes=self._routes(), exception_handlers=error_handlers(_respond_to_error))
        served = ending_with(_below(options.base_path, app), self.stopping)
        self.app: ASGIApp = Protection(served, (options.host, *options.allowed_hosts), options.allowed_origins)

    def _access_of(self, options: WebOptions) -> Access:
        if not options.in_cluster:
            return TokenAccess(self.token)
        from allotment.web.visitors import VisitorAccess

        if self.watched.target is None:
            raise InputError("visitors of a cluster require a running cluster", argument="in_cluster")
        return VisitorAccess(self.watched.target)

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.watched.run(), name="cluster")
            group.create_task(self._past.run(), name="history")

    def _routes(self) -> list[BaseRoute]:
        return [
            Route("/healthz", _healthy, methods=["GET"]),
            Route("/readyz", self._ready, methods=["GET"]),
            Route("/static/{name}", asset, methods=["GET"]),
            Route("/events", self._events, methods=["GET"]),
            Route("/login", self._login, methods=["POST"]),
            *program_routes(self._view_of, self.stopping),
            *(Route(path, self._post(path, answer), methods=["POST"]) for path, answer in POSTED.items()),
            *(Route(path, self._act(action), methods=["POST"]) for path, action in ACTIONS.items()),
            *(Route(path, self._get(path, answer), methods=["GET"]) for path, answer in SCREENS.items()),
        ]

    # --- rights ------------------------------------------------------------------------------------------------------

    async def _rights(self, request: Request) -> VisitorRights:
        return await self._access.rights(token_of(request, self._access.cookie), self.watched.view())

    async def _view_of(self, request: Request) -> ClusterView:
        """Return what the visitor may see. Raises ProblemError."""
        return await self._visible(await self._rights(request), self.watched.view())

    async def _visible(self, rights: VisitorRights, view: ClusterView) -> ClusterView:
        if rights.sees_everything:
            return view
        return await self._answers.run(lambda: visible_to(view, rights))

    async def _login(self, request: Request) -> Response:
        """Keep a token that a visitor typed in, so that the page can send it."""
        try:
            token = msgspec.json.decode(await request.body(), type=decodable(_Login)).token.strip()
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise rejected(400, "bad-input", "The request cannot be answered", 'expected {"token": TEXT}') from None
        if not token.isascii() or not token.isprintable() or set(token) & set(' ",;\\'):
            raise unauthorized("the token contains characters that no token has")
        await self._access.rights(token, self.watched.view())
        response = Response(status_code=204)
        keep_token(response, request, self._access.cookie, token)
        return response

    # --- screens -----------------------------------------------------------------------------------------------------

    def _get(self, path: str, answer: Answer) -> _Endpoint:
        async def get(request: Request) -> Response:
            if "token" in request.query_params:
                return await self._with_token(request)
            if not _wants_json(request):
                return page(request)
            rights = await self._rights(request)
            view = self.watched.view()
            headers = {
                "Cache-Control": "private, no-cache",
                "Vary": "Accept, Accept-Encoding, Authorization, Cookie",
                "ETag": self._tag(rights, view),
            }
            if headers["ETag"] in request.headers.get("if-none-match", ""):
                return Response(status_code=304, headers=headers)
            shown = await self._visible(rights, view)
            past = self._past.before(view) if view.place == "lab" and rights.sees_everything else ()
            wanted = ScreenRequest(request.query_params, _path_of(request), b"", past, self._catalog)
            return (await self._answers.of(shown, path, answer, wanted)).response(request, _JSON, headers)

        return get

    def _tag(self, rights: VisitorRights, view: ClusterView) -> str:
        """Return what identifies an answer: the process, the revision, and the rights."""
        seen = "" if rights.sees_everything else hashlib.sha256(repr(_sorted(rights)).encode()).hexdigest()[:12]
        return f'W/"{self._process}-{view.revision}-{seen}"'

    async def _with_token(self, request: Request) -> Response:
        """Take the token out of the address, which browsers show, keep and send on."""
        try:
            await self._access.rights(request.query_params["token"], self.watched.view())
        except ProblemError as error:
            return page(request, error.problem.status)
        return without_token(request, self._access.cookie)

    def _post(self, path: str, answer: Answer) -> _Endpoint:
        async def post(request: Request) -> Response:
            shown = await self._visible(await self._rights(request), self.watched.view())
            body = await _json_body(request)
            wanted = ScreenRequest(request.query_params, _path_of(request), body, (), self._catalog)
            content = await self._answers.of(shown, path, answer, wanted)
            return content.response(request, _JSON, {"Cache-Control": "no-store"})

        return post

    def _act(self, action: LabAction) -> _Endpoint:
        async def act(request: Request) -> Response:
            await self._rights(request)
            body = await _json_body(request)
            view, target = self.watched.view(), self.watched.target
            # Visitors of a cluster have their own permissions; the server would use its own.
            if not self.token or view.is_read_only or target is None:
                raise rejected(403, "read-only", "Not allowed", "only a lab can be changed on this page")
            return JSONResponse({"sentences": await action(target, view, body)})

        return act

    async def _events(self, request: Request) -> Response:
        await self._rights(request)
        stream = revisions(self.watched, lambda: self._rights(request), self.stopping)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    async def _ready(self, request: Request) -> Response:
        """Ready as soon as anything can be shown: a page that says that the cluster does not respond is better than
        none."""
        view = self.watched.view()
        has_view = view.connected or bool(view.trees)
        return PlainTextResponse("ok\n" if has_view else "the cluster has not been read\n", 200 if has_view else 503)


async def _respond_to_error(request: Request, error: Exception) -> Response:
    """Show the page at unknown addresses, too: it says what exists."""
    is_unknown = isinstance(error, HTTPException) and error.status_code == 404
    if is_unknown and request.method in ("GET", "HEAD") and "text/html" in request.headers.get("accept", ""):
        return page(request, 404)
    return await respond_to_error(request, error)


async def _healthy(request: Request) -> Response:
    return PlainTextResponse("ok\n")


def _below(base: str, app: ASGIApp) -> ASGIApp:
    """Return an application whose addresses begin with a path. Requests without it are served, too: proxies may remove
    it, and probes do not know it."""

    async def below(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")  # a lifespan has none
        await app({**scope, "root_path": base, "path": f"{base}/" if path == base else path}, receive, send)

    return below if base else app


def application(watched: WatchedCluster, options: WebOptions) -> ASGIApp:
    """Return the application for a cluster that something else keeps current."""
    return WebServer(watched, options).app


def _wants_json(request: Request) -> bool:
    accepted = request.headers.get("accept", "")
    is_program = _JSON in accepted and "text/html" not in accepted
    return request.query_params.get("format") == "json" or is_program


async def _json_body(request: Request) -> bytes:
    """Return a body that is declared as JSON, which no form of another site can send. Raises ProblemError."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _JSON:
        detail = f"expected Content-Type {_JSON}, found {kind or 'none'}"
        raise rejected(415, "media-type", "The request is not JSON", detail)
    return await request.body()


def _path_of(request: Request) -> dict[str, str]:
    """Return the variable parts of an address; names of objects encoded, because they may contain slashes."""
    found = dict(request.path_params)
    if "kind" in found:
        raw = bytes(request.scope.get("raw_path") or b"").decode("ascii", "replace").partition("?")[0]
        raw = below_base(raw, request.scope.get("root_path", ""))
        found["name"] = "/".join(raw.split("/")[3:]) or found["name"]
    return found


def _sorted(rights: VisitorRights) -> tuple[object, ...]:
    return tuple(sorted(part) if part is not None else None for part in rights)
