"""Conversion between the API versions that programs use and those that a cluster serves.

Requests are converted to a served version and responses back to the program's version, including unknown fields. If the
server serves the program's version, nothing is converted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from allotment.cluster.client import Client, Listing, PatchKind, Propagation, Resource, WatchEvent
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import (
    CLAIM_TEMPLATES,
    CLAIMS,
    COMPOSITE_POD_GROUPS,
    DEVICE_CLASSES,
    POD_GROUPS,
    POOL_STATUS_REQUESTS,
    SLICES,
    TAINT_RULES,
    WORKLOADS,
)
from allotment.model import group_versions
from allotment.model.known_versions import KNOWN_VERSIONS
from allotment.model.trees import Tree
from allotment.model.versions import HUB, from_v1, patch_from_v1, to_v1

T = TypeVar("T")

#: Programs also write claims and slices; v1alpha3 of these, of Kubernetes 1.31, differs too much.
DEVICE_API_VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
#: The versions of a kind that can be converted, preferred ones first; other kinds have one.
CONVERTIBLE: Final[Mapping[Resource, Sequence[str]]] = {
    **dict.fromkeys((CLAIMS, CLAIM_TEMPLATES, DEVICE_CLASSES, SLICES), DEVICE_API_VERSIONS),
    **{
        resource: KNOWN_VERSIONS[resource.group, resource.plural]
        for resource in (TAINT_RULES, POOL_STATUS_REQUESTS, POD_GROUPS, COMPOSITE_POD_GROUPS, WORKLOADS)
    },
}
#: The same resources by the apiVersion of programs and kind.
_BY_KIND: Final = {(resource.api_version, resource.kind): resource for resource in CONVERTIBLE}


def best_version(resource: Resource, served: Collection[str]) -> str:
    """The preferred version among the served ones that the programs can convert; empty if there is none."""
    convertible = CONVERTIBLE.get(resource, (resource.version,))
    return next((version for version in convertible if version in served), "")


class Versions(Protocol):
    """The versions in which a cluster serves resources."""

    async def of(self, resource: Resource) -> Resource:
        """The resource in the served version; unchanged if it is not served. Raises UnknownVersions."""
        ...

    async def changed(self, resource: Resource, tried: Resource) -> bool:
        """Whether the cluster now serves another version than ``tried``."""
        ...


class ConvertingClient:
    """A client in the programs' versions on top of one in the served versions.

    ``managed_fields``: whether responses keep them. No program reads them, a write without them does not change them,
    and they are half of a claim.

    Raises the errors of the underlying client, UnknownVersions, and ValueError (see :meth:`patch`).
    """

    def __init__(self, client: Client, versions: Versions, *, managed_fields: bool = False) -> None:
        self._client = client
        self._versions = versions
        self._managed_fields = managed_fields

    async def _called(self, resource: Resource, call: Callable[[Resource], Awaitable[T]]) -> T:
        """Call the cluster in a served version, and again if that version has been replaced by another."""
        while True:
            served = await self._versions.of(resource)
            try:
                return await call(served)
            except StatusError as error:
                if not (_no_such_path(error) and await self._versions.changed(resource, served)):
                    raise

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Tree:
        """Get one object."""

        async def call(served: Resource) -> Tree:
            return self._read(
                resource, served, await self._client.get(served, name, namespace, subresource=subresource)
            )

        return await self._called(resource, call)

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> Listing:
        """List all objects."""

        async def call(served: Resource) -> Listing:
            listing = await self._client.list(served, namespace, labels=labels, fields=fields, limit=limit)
            return listing._replace(items=[self._read(resource, served, tree) for tree in listing.items])

        return await self._called(resource, call)

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent]:
        """Yield changes after ``revision``."""
        served = await self._versions.of(resource)
        try:
            async for event in self._client.watch(served, namespace, revision=revision, labels=labels, fields=fields):
                yield WatchEvent(event.type, self._read(resource, served, event.object))
        except StatusError as error:
            # A cache takes 404 for "no objects" and would drop all: end the watch, so that it lists again.
            if _no_such_path(error) and await self._versions.changed(resource, served):
                return
            raise

    async def create(
        self, resource: Resource, tree: Tree, namespace: str = "", *, name: str = "", subresource: str = "",
        dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Create an object, or a subresource such as a binding or eviction. Owners are named in served versions."""
        tree = await self._with_served_owners(tree)

        async def call(served: Resource) -> Tree:
            written = _written(resource, served, tree)
            answer = await self._client.create(
                served, written, namespace, name=name, subresource=subresource, dry_run=dry_run
            )
            return self._read(resource, served, answer)

        return await self._called(resource, call)

    async def update(self, resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
        """Replace an object."""

        async def call(served: Resource) -> Tree:
            written = _written(resource, served, tree)
            answer = await self._client.update(served, written, subresource=subresource, dry_run=dry_run)
            return self._read(resource, served, answer)

        return await self._called(resource, call)

    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", *, kind: PatchKind = "merge",
        subresource: str = "", force: bool = False, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Change an object. Raises ValueError for a JSON patch with a path that the served version lacks."""

        async def call(served: Resource) -> Tree:
            written = _written_patch(resource, served, patch)
            answer = await self._client.patch(
                served, name, written, namespace, kind=kind, subresource=subresource, force=force, dry_run=dry_run
            )
            return self._read(resource, served, answer)

        return await self._called(resource, call)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str = "", revision: str = "",
        grace_seconds: int | None = None, propagation: Propagation | None = None, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Delete an object."""

        async def call(served: Resource) -> Tree:
            answer = await self._client.delete(
                served, name, namespace, uid=uid, revision=revision, grace_seconds=grace_seconds,
                propagation=propagation, dry_run=dry_run,
            )  # fmt: skip
            return self._read(resource, served, answer)

        return await self._called(resource, call)

    async def _with_served_owners(self, tree: Tree) -> Tree:
        """Garbage collection finds an owner only in a version that the cluster serves."""
        metadata = tree.get("metadata") or {}
        owners = metadata.get("ownerReferences") or ()
        known = [_BY_KIND.get((owner.get("apiVersion"), owner.get("kind"))) for owner in owners]
        if not any(known):
            return tree
        served = [
            owner if resource is None else {**owner, "apiVersion": (await self._versions.of(resource)).api_version}
            for owner, resource in zip(owners, known, strict=True)
        ]
        return {**tree, "metadata": {**metadata, "ownerReferences": served}}

    def _read(self, resource: Resource, served: Resource, tree: Tree) -> Tree:
        metadata = tree.get("metadata") or {}
        if "managedFields" in metadata and not self._managed_fields:
            tree = {**tree, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}
        return _converted(resource, served, tree)


def _no_such_path(error: StatusError) -> bool:
    """Whether a 404 is about the resource and not an object, whose name would be in the details."""
    return error.code == 404 and not (error.status.get("details") or {}).get("name")


def _converted(resource: Resource, served: Resource, tree: Tree) -> Tree:
    """Convert a response to the program's version. A Status, which a deletion may return, is not changed."""
    if served == resource or tree.get("kind", resource.kind) != resource.kind:
        return tree
    typed = {**tree, "kind": resource.kind, "apiVersion": served.api_version}
    if resource.api_version == HUB:
        return to_v1(typed)
    if group_versions.HUBS.get(resource.kind) == resource.api_version:
        return group_versions.to_hub(typed)
    return {**tree, "apiVersion": resource.api_version}


def _written_patch(resource: Resource, served: Resource, patch: Any) -> Any:
    if served == resource:
        return patch
    if group_versions.HUBS.get(resource.kind) == resource.api_version:
        return group_versions.patch_from_hub(patch, resource.kind, served.api_version)
    return patch_from_v1(patch, resource.kind, served.api_version)


def _written(resource: Resource, served: Resource, tree: Tree) -> Tree:
    if served == resource:
        return tree
    if resource.api_version == HUB:
        return from_v1({**tree, "kind": resource.kind, "apiVersion": HUB}, served.api_version)
    if group_versions.HUBS.get(resource.kind) == resource.api_version:
        return group_versions.from_hub({**tree, "kind": resource.kind}, served.api_version)
    return {**tree, "apiVersion": served.api_version}
