"""The client protocol for a cluster: reads, writes and watches of API objects.

Objects are JSON trees. A tree from a client is shared by all its readers: change a copy, never the tree. A program
preserves unknown fields by patching, or by writing back the tree that it read; typed values
(``msgspec.convert(tree, Pod)``) are for reading.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from allotment.model.trees import Tree

PatchKind = Literal["merge", "json", "strategic", "apply"]
Propagation = Literal["Background", "Foreground", "Orphan"]


class Resource(NamedTuple):
    """A resource in one API version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """``v1``, ``resource.k8s.io/v1`` …"""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path; without a namespace, of all namespaces.

        >>> Resource("apps", "v1", "deployments", "Deployment", True).path("shop", "web", "scale")
        '/apis/apps/v1/namespaces/shop/deployments/web/scale'
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        inside = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return "".join((root, inside, f"/{self.plural}", name and f"/{name}", subresource and f"/{subresource}"))


class WatchEvent(NamedTuple):
    """A watch event. ``BOOKMARK`` only advances the revision."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: Tree


class Listing(NamedTuple):
    """The result of a list; a watch from ``revision`` continues without a gap."""

    items: Sequence[Tree]
    revision: str


class Client(Protocol):
    """Access to the API under one identity and field manager name.

    Every method raises :class:`~allotment.cluster.errors.StatusError` if the server rejects the request, and
    :class:`~allotment.cluster.errors.Unreachable` if it does not respond. A write that returned is durable.
    """

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Tree:
        """Get one object."""
        ...

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> Listing:
        """List all objects, of all namespaces if none is given; ``limit`` is the page size."""
        ...

    def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent]:
        """Yield changes after ``revision`` until the server ends the watch. Raises StatusError 410 if it is too old."""
        ...

    async def create(
        self, resource: Resource, tree: Tree, namespace: str = "", *, name: str = "", subresource: str = "",
        dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Create an object or, with ``name`` and ``subresource``, a subresource such as a binding or eviction."""
        ...

    async def update(self, resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
        """Replace an object; name, namespace and (to detect conflicts) resourceVersion are in its metadata."""
        ...

    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", *, kind: PatchKind = "merge",
        subresource: str = "", force: bool = False, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Change an object by a patch; ``apply`` takes a partial object and may create."""
        ...

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str = "", revision: str = "",
        grace_seconds: int | None = None, propagation: Propagation | None = None, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Delete an object, if it still has ``uid`` and ``revision`` (where given)."""
        ...


class Reader(Protocol):
    """A client that can read any path."""

    async def read(self, path: str, query: Sequence[tuple[str, str]] = (), accept: str = ...) -> Tree:
        """Read the tree at a path."""
        ...
