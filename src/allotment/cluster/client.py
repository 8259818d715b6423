"""The one way to a cluster: reads, writes and watches of objects as the API shows them.

Objects are JSON trees. A tree that came from a client is shared by everyone who got it: change a copy, never the tree.
A program keeps what it does not know by patching, or by writing back the very tree it read; typed values
(``msgspec.convert(tree, Pod)``) are for reading.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from allotment.model.trees import Tree

PatchKind = Literal["merge", "json", "strategic", "apply"]
Propagation = Literal["Background", "Foreground", "Orphan"]


class Resource(NamedTuple):
    """A resource of one API version, as paths name it."""

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
        """The URL path; without a namespace, of the resource in all namespaces.

        >>> Resource("apps", "v1", "deployments", "Deployment", True).path("shop", "web", "scale")
        '/apis/apps/v1/namespaces/shop/deployments/web/scale'
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        inside = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return "".join((root, inside, f"/{self.plural}", name and f"/{name}", subresource and f"/{subresource}"))


class Event(NamedTuple):
    """A change seen by a watch. ``BOOKMARK`` only moves the revision on."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: Tree


class Listing(NamedTuple):
    """Objects of one moment; a watch from ``revision`` continues without a gap."""

    items: Sequence[Tree]
    revision: str


class Client(Protocol):
    """Access to the API under one identity and field manager name.

    Every method raises :class:`~allotment.cluster.errors.StatusError` with the server's answer when it refuses, and
    :class:`~allotment.cluster.errors.Unreachable` when there is no answer. A write that returned is durable.
    """

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Tree:
        """One object."""
        ...

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> Listing:
        """All objects (of all namespaces without one), whatever the number; ``limit`` is the size of a page."""
        ...

    def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Event]:
        """Changes after ``revision``. Ends when the server ends it; raises StatusError 410 when it is too old."""
        ...

    async def create(
        self, resource: Resource, tree: Tree, namespace: str = "", *, name: str = "", subresource: str = "",
        dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """A new object, or (with ``name`` and ``subresource``) a call such as binding or eviction."""
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
        """Delete an object, if ``uid`` and ``revision`` (where given) are still its own."""
        ...


class Reader(Protocol):
    """A client that reads any path."""

    async def read(self, path: str, query: Sequence[tuple[str, str]] = (), accept: str = ...) -> Tree:
        """The tree at a path."""
        ...
