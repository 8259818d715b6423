"""A client for Kubernetes API servers, or a lab in another process, over HTTP.

Maps API verbs to requests: paths and queries, pages of lists, watch events, and which writes are idempotent. Sending,
credentials and retries are in ``connection``.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import quote

import msgspec

from allotment.cluster.client import Listing, PatchKind, Propagation, Resource, WatchEvent
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.remote.connection import (
    LATER_SECONDS,
    ApiConnection,
    ApiRequest,
    OnAnswer,
    Query,
    WriteBlock,
    status,
)
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.remote.verbatim_json import PROTOBUF, as_stored, encoded, may_be_of_bytes
from allotment.model.trees import Tree

_PAGE = 500  # as kubectl
#: Range of the watch timeout; random, so that many watches do not restart together.
_WATCH_SECONDS = (290, 590)
#: A watch without data for this long is restarted: its server may hang while another is available. Bookmarks come each
#: minute, but for resources that never changed only if etcd reports its progress.
_SILENT_SECONDS = 150

_PATCHES: Final[dict[PatchKind, str]] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_EVENTS: Final = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")
_DECODER: Final = msgspec.json.Decoder(dict[str, Any])


class HttpClient:
    """:class:`~allotment.cluster.client.Client` over HTTP. Use ``async with``, or ``await close()`` at the end.

    ``manager``: field manager of writes. ``agent``: first part of the User-Agent. ``retry_seconds``: how long requests
    are retried after a first failure, unless the server has never responded. ``later_seconds``: limit of all
    Retry-After delays of a request. ``write_block``: returns why writes are not allowed, before every try; a write that
    is blocked for longer than ``retry_seconds`` raises Unreachable.
    """

    def __init__(
        self, target: ClusterTarget, manager: str = "allotment", *, timeout_seconds: float = 60,
        retry_seconds: float = 5, later_seconds: float = LATER_SECONDS, agent: str = "allotment",
        on_answer: OnAnswer | None = None, write_block: WriteBlock | None = None,
    ) -> None:  # fmt: skip
        self.target = target
        self._manager = manager
        self._connection = ApiConnection(
            target, timeout_seconds=timeout_seconds, retry_seconds=retry_seconds, agent=agent,
            later_seconds=later_seconds, on_answer=on_answer, write_block=write_block,
        )  # fmt: skip

    async def __aenter__(self) -> HttpClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    # --- cluster.Client

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Tree:
        """Get one object."""
        return await self._request("GET", _path(resource, namespace, name, subresource))

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> Listing:
        """List all objects, page by page; if the continue token expires, again in one request."""
        path = _path(resource, namespace)
        selectors = _selectors(labels, fields)
        items: list[Tree] = []
        token = ""
        page = limit or _PAGE
        while True:
            query = [*selectors, ("limit", str(page))] if page else selectors
            try:
                tree = await self._request("GET", path, [*query, ("continue", token)] if token else query)
            except StatusError as error:
                if error.code != 410 or not token:
                    raise
                items, token, page = [], "", 0
                continue
            if (
                "items" not in tree
            ):  # a response of a proxy, for example: an empty list would mean that all objects are deleted
                raise Unreachable(f"{self.target.server}{path}: expected a list, found {str(tree)[:80]}")
            kind = str(tree.get("kind", "")).removesuffix("List")
            for item in tree.get("items") or ():
                # Servers omit apiVersion and kind from the items of a list.
                if "kind" not in item:
                    item = {"apiVersion": tree.get("apiVersion", ""), "kind": kind, **item}
                items.append(item)
            metadata = tree.get("metadata") or {}
            token = metadata.get("continue") or ""
            if not token:
                return Listing(items, metadata.get("resourceVersion", ""))

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent]:
        """Yield changes after ``revision``, until the server ends the watch or sends nothing for long."""
        query = [("watch", "true"), ("resourceVersion", revision), ("allowWatchBookmarks", "true"),
                 ("timeoutSeconds", str(random.randint(*_WATCH_SECONDS))), *_selectors(labels, fields)]  # fmt: skip
        path = _path(resource, namespace)
        url = f"{self.target.server}{path}"
        async with self._connection.pieces(
            ApiRequest("GET", path, query, silence=_SILENT_SECONDS, repeatable=True)
        ) as pieces:
            async for line in _lines(pieces):
                tree = _decoded(line, url)
                if tree.get("type") == "ERROR":
                    raise StatusError(tree.get("object") or {})
                if tree.get("type") in _EVENTS:
                    yield WatchEvent(tree["type"], tree["object"])

    async def create(
        self, resource: Resource, tree: Tree, namespace: str = "", *, name: str = "", subresource: str = "",
        dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Create an object, or a subresource such as a binding or eviction."""
        namespace = namespace or str((tree.get("metadata") or {}).get("namespace") or "")
        path = _path(resource, namespace, name, subresource)
        return await self._request("POST", path, _written_by(self._manager, dry_run), tree, repeatable=dry_run)

    async def update(self, resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
        """Replace an object."""
        metadata = tree.get("metadata") or {}
        path = _path(resource, str(metadata.get("namespace") or ""), str(metadata.get("name") or ""), subresource)
        # With a resourceVersion, a repeated update is a conflict.
        repeatable = dry_run or bool(metadata.get("resourceVersion"))
        query = _written_by(self._manager, dry_run)
        try:
            return await self._request("PUT", path, query, tree, repeatable=repeatable)
        except StatusError as error:
            if not may_be_of_bytes(error):
                raise
            whole = ApiRequest("GET", path.removesuffix(f"/{subresource}"), accept=PROTOBUF, repeatable=True)
            try:
                stored = await self._connection.read(whole)
            except StatusError:
                raise error from None
        return await self._request("PUT", path, query, as_stored(tree, stored), repeatable=repeatable)

    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", *, kind: PatchKind = "merge",
        subresource: str = "", force: bool = False, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Change an object by a patch."""
        query = _written_by(self._manager, dry_run)
        if kind == "apply":
            query.append(("force", "true" if force else "false"))
        path = _path(resource, namespace, name, subresource)
        repeatable = dry_run or _is_idempotent(kind, patch)
        return await self._request("PATCH", path, query, patch, _PATCHES[kind], repeatable=repeatable)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str = "", revision: str = "",
        grace_seconds: int | None = None, propagation: Propagation | None = None, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Delete an object, if it still has ``uid`` and ``revision`` (where given)."""
        options: Tree = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if preconditions := {k: v for k, v in (("uid", uid), ("resourceVersion", revision)) if v}:
            options["preconditions"] = preconditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if dry_run:
            options["dryRun"] = ["All"]
        repeatable = dry_run or bool(preconditions)
        return await self._request("DELETE", _path(resource, namespace, name), (), options, repeatable=repeatable)

    # --- beyond the protocol, for the command line

    async def read(self, path: str, query: Query = (), accept: str = "application/json") -> Tree:
        """Read the tree at any path, such as discovery or version."""
        return await self._request("GET", path, query, accept=accept)

    async def stream(self, path: str, query: Query = (), accept: str = "*/*") -> AsyncIterator[bytes]:
        """Stream the bytes at a path, such as a log."""
        async with self._connection.pieces(ApiRequest("GET", path, query, accept=accept, silence=None)) as pieces:
            async for piece in pieces:
                yield piece

    async def _request(
        self, method: str, path: str, query: Query = (), body: Any = None, content_type: str = "application/json",
        accept: str = "application/json", *, repeatable: bool = False,
    ) -> Tree:  # fmt: skip
        content = body if body is None or isinstance(body, bytes) else encoded(body)
        request = ApiRequest(
            method, path, query, content, content_type, accept, repeatable=repeatable or method == "GET"
        )
        return _decoded(await self._connection.read(request), f"{self.target.server}{path}")


def _path(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    for field, value in (("namespace", namespace), ("name", name)):
        # Such a name would change the path to another object, or leave the API.
        if "/" in value or value in (".", ".."):
            message = f"{field}: Invalid value: {value!r}: may not contain '/', nor be '.' or '..'"
            raise StatusError(status(400, "BadRequest", message))
    return quote(resource.path(namespace, name, subresource), safe="/:@!$&'()*+,;=~")


def _is_idempotent(kind: PatchKind, patch: Any) -> bool:
    """Whether a patch is idempotent and tied to one object."""
    if kind in ("merge", "strategic"):
        metadata = patch.get("metadata") if isinstance(patch, dict) else None
        return isinstance(metadata, dict) and bool(metadata.get("uid") or metadata.get("resourceVersion"))
    return kind == "apply"


def _written_by(manager: str, dry_run: bool) -> list[tuple[str, str]]:
    return [("fieldManager", manager), *([("dryRun", "All")] if dry_run else [])]


def _selectors(labels: str, fields: str) -> list[tuple[str, str]]:
    return [(key, value) for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value]


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Split at newlines only: JSON may contain other line separators."""
    kept = bytearray()
    async for piece in pieces:
        kept += piece
        if b"\n" in piece:
            *whole, rest = bytes(kept).split(b"\n")
            kept = bytearray(rest)
            for line in whole:
                if line:
                    yield line


def _decoded(data: bytes, url: str) -> Tree:
    try:
        return _DECODER.decode(data)
    except msgspec.DecodeError as error:
        start = data[:80].decode("utf-8", "replace")
        raise Unreachable(f"{url}: expected a JSON object, found {start!r}: {error}") from None
