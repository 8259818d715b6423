"""A client of a cluster that is elsewhere: any Kubernetes API server, or a lab in another process, over HTTP.

What a server asks for is done here and nowhere else: to wait when it has too much to do (429), to continue a list where
a page ended, to show fresh credentials. Everything that goes wrong on the way is Unreachable and says what was tried.
"""

from __future__ import annotations

import asyncio
import platform
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote

import httpx
import msgspec

from allotment import __version__
from allotment.cluster.client import Event, Listing, PatchKind, Propagation, Resource, Tree
from allotment.cluster.credentials import Credentials
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.kubeconfig import Target

Query = Sequence[tuple[str, str]]

_PAGE = 500  # as kubectl
#: How often a server may say "later".
_LATER = 10
#: A watch is asked to end after so long, so that a connection which died silently is noticed.
_WATCH_SECONDS = (290, 590)

_PATCHES: Final[dict[PatchKind, str]] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_EVENTS: Final = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")


#: Told of each answer: method, code (0: none came), seconds until it began.
OnAnswer = Callable[[str, int, float], None]


class HttpClient:
    """:class:`~allotment.cluster.client.Client` over HTTP. Use ``async with``, or ``await close()`` at the end.

    ``manager``: whose fields its writes are. ``agent``: the first part of the User-Agent.
    """

    def __init__(
        self, target: Target, manager: str = "allotment", *, timeout_seconds: float = 60, agent: str = "allotment",
        on_answer: OnAnswer | None = None,
    ) -> None:  # fmt: skip
        self.target = target
        self._manager = manager
        self._agent = agent
        self._on_answer = on_answer
        self._credentials = Credentials(target)
        self._timeout = httpx.Timeout(timeout_seconds, connect=10, pool=None)
        self._http: httpx.AsyncClient | None = None
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> HttpClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of all connections."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    # --- cluster.Client

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Tree:
        """One object."""
        return await self._ask("GET", _path(resource, namespace, name, subresource))

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> Listing:
        """All objects, page by page. If the history is lost between two pages, once more and whole."""
        path = _path(resource, namespace)
        selectors = _selectors(labels, fields)
        items: list[Tree] = []
        token = ""
        page = limit or _PAGE
        while True:
            query = [*selectors, ("limit", str(page))] if page else selectors
            try:
                tree = await self._ask("GET", path, [*query, ("continue", token)] if token else query)
            except StatusError as error:
                if error.code != 410 or not token:
                    raise
                items, token, page = [], "", 0
                continue
            kind = str(tree.get("kind", "")).removesuffix("List")
            for item in tree.get("items") or ():
                # Servers leave out of items what the list says for all of them.
                if "kind" not in item:
                    item = {"apiVersion": tree.get("apiVersion", ""), "kind": kind, **item}
                items.append(item)
            metadata = tree.get("metadata") or {}
            token = metadata.get("continue") or ""
            if not token:
                return Listing(items, metadata.get("resourceVersion", ""))

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Event]:
        """Changes after ``revision``, until the server ends it."""
        seconds = random.randint(*_WATCH_SECONDS)
        query = [("watch", "true"), ("resourceVersion", revision), ("allowWatchBookmarks", "true"),
                 ("timeoutSeconds", str(seconds)), *_selectors(labels, fields)]  # fmt: skip
        path = _path(resource, namespace)
        async with self._open("GET", path, query, silence=seconds + 30) as response:
            async for line in _lines(response, f"{self.target.server}{path}"):
                tree = _decoded(line, f"{self.target.server}{path}")
                if tree.get("type") == "ERROR":
                    raise StatusError(tree.get("object") or {})
                if tree.get("type") in _EVENTS:
                    yield Event(tree["type"], tree["object"])

    async def create(
        self, resource: Resource, tree: Tree, namespace: str = "", *, name: str = "", subresource: str = "",
        dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """A new object, or a call such as binding or eviction."""
        namespace = namespace or str((tree.get("metadata") or {}).get("namespace") or "")
        return await self._ask(
            "POST", _path(resource, namespace, name, subresource), _written_by(self._manager, dry_run), tree
        )

    async def update(self, resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
        """Replace an object."""
        metadata = tree.get("metadata") or {}
        path = _path(resource, str(metadata.get("namespace") or ""), str(metadata.get("name") or ""), subresource)
        return await self._ask("PUT", path, _written_by(self._manager, dry_run), tree)

    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", *, kind: PatchKind = "merge",
        subresource: str = "", force: bool = False, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Change an object by a patch."""
        query = _written_by(self._manager, dry_run)
        if kind == "apply":
            query.append(("force", "true" if force else "false"))
        path = _path(resource, namespace, name, subresource)
        return await self._ask("PATCH", path, query, patch, _PATCHES[kind])

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str = "", revision: str = "",
        grace_seconds: int | None = None, propagation: Propagation | None = None, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Delete an object, if ``uid`` and ``revision`` (where given) are still its own."""
        options: Tree = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if preconditions := {k: v for k, v in (("uid", uid), ("resourceVersion", revision)) if v}:
            options["preconditions"] = preconditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if dry_run:
            options["dryRun"] = ["All"]
        return await self._ask("DELETE", _path(resource, namespace, name), (), options)

    # --- beyond the protocol: what screens need

    async def read(self, path: str, query: Query = (), accept: str = "application/json") -> Tree:
        """The tree at any path: discovery, version."""
        return await self._ask("GET", path, query, accept=accept)

    async def stream(self, path: str, query: Query = (), accept: str = "*/*") -> AsyncIterator[bytes]:
        """The bytes at a path (a log), as they come, for as long as they come."""
        async with self._open("GET", path, query, silence=None, accept=accept) as response:
            try:
                async for piece in response.aiter_bytes():
                    yield piece
            except httpx.HTTPError as error:
                raise Unreachable(_told("GET", f"{self.target.server}{path}", error)) from error

    # --- requests

    async def _ask(
        self, method: str, path: str, query: Query = (), body: Any = None, content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Tree:  # fmt: skip
        async with self._open(method, path, query, body, content_type, accept=accept) as response:
            url = f"{self.target.server}{path}"
            try:
                return _decoded(await response.aread(), url)
            except httpx.HTTPError as error:
                raise Unreachable(_told(method, url, error)) from error

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, query: Query = (), body: Any = None, content_type: str = "application/json",
        *, silence: float | None = 0, accept: str = "application/json",
    ) -> AsyncIterator[httpx.Response]:  # fmt: skip
        """An answer that is none of refusal; ``silence``: how long it may pause (0: as all others)."""
        content = None if body is None else msgspec.json.encode(body)
        headers = [("Accept", accept)]
        if content is not None:
            headers.append(("Content-Type", content_type))
        timeout = self._timeout if silence == 0 else httpx.Timeout(self._timeout.write, read=silence, connect=10)
        later = _LATER
        renewed = disconnected = False
        while True:
            http = await self._connected()
            request = http.build_request(
                method, self.target.server + path, params=list(query) or None, content=content, timeout=timeout,
                headers=[*headers, *await self._credentials.headers()],
                extensions={"sni_hostname": self.target.server_name} if self.target.server_name else None,
            )  # fmt: skip
            began = time.monotonic()
            code = 0
            try:
                response = await http.send(request, stream=True)
                code = response.status_code
            except httpx.RemoteProtocolError as error:
                # The server closed a kept connection just as we used it: nothing was done yet, to read again is safe.
                if method == "GET" and not disconnected:
                    disconnected = True
                    continue
                raise Unreachable(_told(method, str(request.url), error)) from error
            except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                raise Unreachable(_told(method, str(request.url), error)) from error
            finally:
                if self._on_answer is not None:
                    self._on_answer(method, code, time.monotonic() - began)
            try:
                if response.is_success:
                    yield response
                    return
                refusal = await _refusal(response)
            finally:
                await response.aclose()
            if response.status_code == 401 and not renewed and self._credentials.forget():
                renewed = True
                await self.close()  # a certificate may be fresh, too
            elif (wait := _wait(response)) is not None and later:
                later -= 1
                await asyncio.sleep(wait)
            else:
                raise refusal

    async def _connected(self) -> httpx.AsyncClient:
        async with self._opening:
            if self._http is None:
                # Watches hold a connection each: no limit. Proxies: the file's, else the environment's.
                limits = httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=60)
                self._http = httpx.AsyncClient(
                    verify=await self._credentials.context(), proxy=self.target.proxy or None, limits=limits,
                    headers={"User-Agent": f"{self._agent}/{__version__} ({platform.system().lower()})"},
                )  # fmt: skip
            return self._http


def _path(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    for what, value in (("namespace", namespace), ("name", name)):
        # Such a name would lead to another object, or out of the API.
        if "/" in value or value in (".", ".."):
            message = f"{what}: Invalid value: {value!r}: may not contain '/', nor be '.' or '..'"
            raise StatusError(_status(400, "BadRequest", message))
    return quote(resource.path(namespace, name, subresource), safe="/:@!$&'()*+,;=~")


def _written_by(manager: str, dry_run: bool) -> list[tuple[str, str]]:
    return [("fieldManager", manager), *([("dryRun", "All")] if dry_run else [])]


def _selectors(labels: str, fields: str) -> list[tuple[str, str]]:
    return [(key, value) for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value]


async def _lines(response: httpx.Response, url: str) -> AsyncIterator[bytes]:
    """Lines of bytes: JSON may hold what other ideas of a line would split at."""
    kept = bytearray()
    try:
        async for piece in response.aiter_bytes():
            kept += piece
            if b"\n" in piece:
                *whole, rest = bytes(kept).split(b"\n")
                kept = bytearray(rest)
                for line in whole:
                    if line:
                        yield line
    except httpx.HTTPError as error:
        raise Unreachable(_told("GET", url, error)) from error


def _decoded(data: bytes, url: str) -> Tree:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError as error:
        begun = data[:80].decode("utf-8", "replace")
        raise Unreachable(f"{url}: wanted a JSON object, got {begun!r}: {error}") from None


async def _refusal(response: httpx.Response) -> StatusError:
    """The server's own Status; where something else answered (a proxy), one made of what it said."""
    try:
        data = await response.aread()
    except httpx.HTTPError:
        data = b""
    try:
        tree = msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError:
        tree = {}
    code = response.status_code
    if tree.get("kind") == "Status":
        return StatusError({**tree, "code": tree.get("code") or code})
    said = data[:200].decode("utf-8", "replace").strip() or response.reason_phrase
    return StatusError(_status(code, _REASONS.get(code, ""), f"{response.request.url} answered {code}: {said}"))


_REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed",
    409: "Conflict", 410: "Expired", 413: "RequestEntityTooLarge", 415: "UnsupportedMediaType", 422: "Invalid",
    429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


def _status(code: int, reason: str, message: str) -> Tree:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code}  # fmt: skip


def _wait(response: httpx.Response) -> float | None:
    """How long the server wants us to wait before we ask again; None if it did not say so."""
    if response.status_code != 429 and response.status_code < 500:
        return None
    said = response.headers.get("retry-after", "")
    return min(float(said), 60) if said.isdigit() else None


def _told(method: str, url: str, error: Exception) -> str:
    cause = str(error) or type(error).__name__
    return f"{method} {url}: {cause}"
