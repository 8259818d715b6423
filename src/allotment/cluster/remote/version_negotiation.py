"""Programs speak one version of ``resource.k8s.io``; here a cluster that serves only older ones is made to understand.

Kubernetes 1.34 and newer serve v1, 1.33 v1beta2 and v1beta1, 1.32 v1beta1; the kinds that never came to v1 moved from
v1alpha3 to v1beta2 in 1.36. Whatever goes out is converted to what the server has, and what comes back to what the
program asked for, unknown fields included. On a server that has what programs speak nothing is in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, Protocol

from allotment.cluster.client import Client, Event, Listing, PatchKind, Propagation, Reader, Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    POOL_STATUS_REQUESTS,
    SLICES,
    TAINT_RULES,
)
from allotment.model.fields import GROUP
from allotment.model.trees import Tree
from allotment.model.versions import HUB, from_v1, patch_from_v1, to_v1

#: Versions in which a kind is understood, the best first.
_ANY: Final = ("v1", "v1beta2", "v1beta1")
_UNDERSTOOD: Final[Mapping[Resource, Sequence[str]]] = {
    CLAIMS: _ANY,
    CLAIM_TEMPLATES: _ANY,
    DEVICE_CLASSES: _ANY,
    SLICES: _ANY,
    TAINT_RULES: ("v1beta2", "v1alpha3"),
    POOL_STATUS_REQUESTS: ("v1beta2", "v1alpha3"),
}
#: A kind that is missing is not asked for again before.
_ASK_AGAIN_SECONDS: Final = 10.0


class NotServed(StatusError):
    """The cluster has no devices to give: it does not serve ``resource.k8s.io`` in any version that is understood."""

    def __init__(self, found: str) -> None:
        message = (
            f"this cluster does not serve {GROUP}: wanted {', '.join(_ANY[:-1])} or {_ANY[-1]}, found {found}; it is "
            "on by default from 1.34, and before by --runtime-config and the feature gate DynamicResourceAllocation"
        )
        super().__init__({"kind": "Status", "code": 404, "reason": "NotFound", "message": message})


class Api(Client, Reader, Protocol):
    """A client that reads any path, too."""


class Versions:
    """In which versions a cluster serves the kinds of devices: asked when that is first needed, by all its clients."""

    def __init__(self, client: Api) -> None:
        self._client = client
        self._served: dict[Resource, Resource] = {}
        self._asked: float | None = None
        self._asking = asyncio.Lock()

    async def ask(self) -> None:
        """Ask the cluster. Raises NotServed, StatusError and Unreachable."""
        async with self._asking:
            await self._ask()

    async def of(self, resource: Resource) -> Resource:
        """The resource as the cluster has it; itself where that is not known."""
        if self._asked is None and resource in _UNDERSTOOD:
            async with self._asking:
                if self._asked is None:
                    await self._ask()
        return self._served.get(resource, resource)

    async def changed(self, resource: Resource, tried: Resource) -> bool:
        """Whether the cluster, which does not know ``tried``, has another version now: it may have been upgraded."""
        if resource not in _UNDERSTOOD:
            return False
        async with self._asking:
            if self._asked is None or time.monotonic() - self._asked >= _ASK_AGAIN_SECONDS:
                await self._ask()
        return self._served.get(resource, resource) != tried

    async def _ask(self) -> None:
        there = await self._there()
        self._served = {
            resource: resource._replace(version=found)
            for resource, versions in _UNDERSTOOD.items()
            if (found := next((version for version in versions if (resource.plural, version) in there), None))
        }
        self._asked = time.monotonic()
        if CLAIMS not in self._served:
            raise NotServed(", ".join(sorted({version for _, version in there})) or "none of it")

    async def _there(self) -> set[tuple[str, str]]:
        """What the cluster serves of the group, plural and version."""
        try:
            group = await self._client.read(f"/apis/{GROUP}")
        except StatusError as error:
            if error.code == 404:
                return set()
            raise
        names = [str(version.get("version", "")) for version in group.get("versions") or ()]
        lists = await asyncio.gather(*(self._client.read(f"/apis/{GROUP}/{name}") for name in names))
        return {
            (str(resource.get("name", "")), name)
            for name, listed in zip(names, lists, strict=True)
            for resource in listed.get("resources") or ()
        }


class Negotiated:
    """A client of programs, over one of the cluster; clients of one cluster may share what they know of its versions.

    Raises what the other does, and ValueError as :meth:`patch` says.
    """

    def __init__(self, client: Api, versions: Versions | None = None) -> None:
        self._client = client
        self.versions = versions or Versions(client)

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Tree:
        """One object."""
        there = await self.versions.of(resource)
        return _read(resource, there, await self._client.get(there, name, namespace, subresource=subresource))

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> Listing:
        """All objects. If the cluster has lost the version that it served, in that which it serves now."""
        while True:
            there = await self.versions.of(resource)
            try:
                listing = await self._client.list(there, namespace, labels=labels, fields=fields, limit=limit)
            except StatusError as error:
                if error.code == 404 and await self.versions.changed(resource, there):
                    continue
                raise
            return listing._replace(items=[_read(resource, there, tree) for tree in listing.items])

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Event]:
        """Changes after ``revision``."""
        there = await self.versions.of(resource)
        try:
            async for event in self._client.watch(there, namespace, revision=revision, labels=labels, fields=fields):
                yield Event(event.type, _read(resource, there, event.object))
        except StatusError as error:
            # Whoever follows takes 404 for "there is none of it", and all would be forgotten: it is listed anew.
            if error.code == 404 and await self.versions.changed(resource, there):
                return
            raise

    async def create(
        self, resource: Resource, tree: Tree, namespace: str = "", *, name: str = "", subresource: str = "",
        dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """A new object, or a call such as binding or eviction."""
        there = await self.versions.of(resource)
        answer = await self._client.create(
            there, _written(resource, there, tree), namespace, name=name, subresource=subresource, dry_run=dry_run
        )
        return _read(resource, there, answer)

    async def update(self, resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
        """Replace an object."""
        there = await self.versions.of(resource)
        tree = _written(resource, there, tree)
        return _read(resource, there, await self._client.update(there, tree, subresource=subresource, dry_run=dry_run))

    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", *, kind: PatchKind = "merge",
        subresource: str = "", force: bool = False, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Change an object. Raises ValueError for a JSON patch whose place the cluster's version does not have."""
        there = await self.versions.of(resource)
        if there != resource:
            patch = patch_from_v1(patch, resource.kind, there.api_version)
        answer = await self._client.patch(
            there, name, patch, namespace, kind=kind, subresource=subresource, force=force, dry_run=dry_run
        )
        return _read(resource, there, answer)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str = "", revision: str = "",
        grace_seconds: int | None = None, propagation: Propagation | None = None, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Delete an object."""
        there = await self.versions.of(resource)
        answer = await self._client.delete(
            there, name, namespace, uid=uid, revision=revision, grace_seconds=grace_seconds, propagation=propagation,
            dry_run=dry_run,
        )  # fmt: skip
        return _read(resource, there, answer)

    async def read(self, path: str, query: Sequence[tuple[str, str]] = (), accept: str = "application/json") -> Tree:
        """The tree at a path, as the cluster has it."""
        return await self._client.read(path, query, accept)


def _read(resource: Resource, there: Resource, tree: Tree) -> Tree:
    """What came, as the program asked for it, without the record of who set which field: no program reads that, a write
    without it changes none of it, and it is half of a claim. A Status, which deletion may answer with, is left alone.
    """
    metadata = tree.get("metadata") or {}
    if "managedFields" in metadata:
        tree = {**tree, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}
    if there == resource or tree.get("kind", resource.kind) != resource.kind:
        return tree
    if resource.api_version == HUB:
        return to_v1({**tree, "kind": resource.kind, "apiVersion": there.api_version})
    return {**tree, "apiVersion": resource.api_version}


def _written(resource: Resource, there: Resource, tree: Tree) -> Tree:
    if there == resource:
        return tree
    if resource.api_version == HUB:
        return from_v1({**tree, "kind": resource.kind, "apiVersion": HUB}, there.api_version)
    return {**tree, "apiVersion": there.api_version}
