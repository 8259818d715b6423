"""Conversion between the API versions that programs use and those that a cluster serves.

Kubernetes 1.34 and newer serve v1 of ``resource.k8s.io``, 1.33 v1beta2 and v1beta1, 1.32 v1beta1; DeviceTaintRules are
in v1alpha3 until 1.35, in v1beta2 with 1.36, in v1 from 1.37. Requests are converted to a served version and
responses back to the program's version, including unknown fields. If the server serves the program's version, nothing
is converted.

A server returns 404 for a version that it does not serve, even if it serves the kind in other versions. Therefore 404
is accepted only if discovery agrees; a kind that is served only in unknown versions is an error.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from allotment.cluster.client import Client, Event, Listing, PatchKind, Propagation, Reader, Resource
from allotment.cluster.errors import StatusError, UnknownVersions
from allotment.cluster.resources import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    POD_GROUPS,
    POOL_STATUS_REQUESTS,
    SLICES,
    TAINT_RULES,
)
from allotment.model.fields import GROUP
from allotment.model.known_versions import KNOWN_VERSIONS, version_mismatch
from allotment.model.trees import Tree
from allotment.model.versions import HUB, from_v1, patch_from_v1, to_v1

T = TypeVar("T")

log = logging.getLogger(__name__)

#: Programs also write claims and slices; v1alpha3 of these, of Kubernetes 1.31, differs too much.
_ANY: Final = ("v1", "v1beta2", "v1beta1")
#: The versions of a kind that can be converted, preferred ones first; other kinds have one.
_CONVERTIBLE: Final[Mapping[Resource, Sequence[str]]] = {
    **dict.fromkeys((CLAIMS, CLAIM_TEMPLATES, DEVICE_CLASSES, SLICES), _ANY),
    **{
        resource: KNOWN_VERSIONS[resource.group, resource.plural]
        for resource in (TAINT_RULES, POOL_STATUS_REQUESTS, POD_GROUPS)
    },
}
#: Minimum interval between discoveries of a group.
_DISCOVERY_SECONDS: Final = 10.0


class DeviceApiNotServed(StatusError):
    """Raised if the cluster does not serve ``resource.k8s.io`` in any known version."""

    def __init__(self, found: str) -> None:
        message = (
            f"this cluster does not serve {GROUP}: expected {', '.join(_ANY[:-1])} or {_ANY[-1]}, found {found}. It is "
            "enabled by default since 1.34; in older releases, set --runtime-config and the feature gate "
            "DynamicResourceAllocation"
        )
        super().__init__({"kind": "Status", "code": 404, "reason": "NotFound", "message": message})


class ApiClient(Client, Reader, Protocol):
    """A client that can also read any path."""


class _Group(NamedTuple):
    """The served versions of a group by plural. ``asked``: time of discovery, in monotonic seconds."""

    discovered: float
    served: Mapping[str, Sequence[str]]


class ServedVersions:
    """The served versions of kinds, discovered by group on first use and shared by all clients of a cluster."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._groups: dict[str, _Group] = {}
        self._lock = asyncio.Lock()
        self._warned: set[str] = set()

    async def check_device_api(self) -> None:
        """Check that the device API is served.

        Raises DeviceApiNotServed, UnknownVersions, StatusError and Unreachable.
        """
        await self._discover(GROUP, 0.0)
        self._best(CLAIMS)

    async def of(self, resource: Resource) -> Resource:
        """The resource in the served version; unchanged if it is not served.

        Raises UnknownVersions if it is served only in unknown versions, and DeviceApiNotServed.
        """
        if resource not in _CONVERTIBLE:
            return resource
        await self._discover(resource.group)
        try:
            return self._best(resource)
        except (DeviceApiNotServed, UnknownVersions):  # one of several servers may have been upgraded before the others
            await self._discover(resource.group, _DISCOVERY_SECONDS)
            return self._best(resource)

    async def changed(self, resource: Resource, tried: Resource) -> bool:
        """Whether the cluster now serves another version than ``tried``, after an upgrade.

        Raises UnknownVersions if it is served only in unknown versions.
        """
        if not resource.group:
            return False
        try:
            await self._discover(resource.group, _DISCOVERY_SECONDS)
        except StatusError:
            if resource in _CONVERTIBLE:
                raise
            return False  # discovery may be forbidden although reading is allowed
        return self._best(resource) != tried

    def _best(self, resource: Resource) -> Resource:
        convertible = _CONVERTIBLE.get(resource, (resource.version,))
        served = self._groups[resource.group].served
        versions = served.get(resource.plural, ())
        best = next((version for version in convertible if version in versions), "")
        if best:
            return resource._replace(version=best)
        if versions:
            raise self._unknown(resource, versions, convertible)
        if resource.group == GROUP and not served.get(CLAIMS.plural):
            raise DeviceApiNotServed(
                ", ".join(sorted({version for found in served.values() for version in found})) or "none"
            )
        return resource

    def _unknown(self, resource: Resource, versions: Sequence[str], convertible: Sequence[str]) -> UnknownVersions:
        error = UnknownVersions(f"{resource.plural}.{resource.group}", version_mismatch(versions, convertible))
        if str(error) not in self._warned:
            self._warned.add(str(error))
            log.warning("%s", error)
        return error

    async def _discover(self, group: str, after: float | None = None) -> None:
        """Discover a group if it is not known, or was discovered more than ``after`` seconds ago."""
        if self._is_known(group, after):
            return
        async with self._lock:
            if not self._is_known(group, after):
                self._groups[group] = _Group(time.monotonic(), await self._served(group))

    def _is_known(self, group: str, after: float | None) -> bool:
        known = self._groups.get(group)
        return known is not None and (after is None or time.monotonic() - known.discovered < after)

    async def _served(self, group: str) -> Mapping[str, Sequence[str]]:
        try:
            found = await self._client.read(f"/apis/{group}")
        except StatusError as error:
            if error.code == 404:
                return {}
            raise
        names = [str(version.get("version", "")) for version in found.get("versions") or ()]
        lists = await asyncio.gather(*(self._resources(f"/apis/{group}/{name}") for name in names))
        served: dict[str, list[str]] = {}
        for name, plurals in zip(names, lists, strict=True):
            for plural in plurals:
                served.setdefault(plural, []).append(name)
        return served

    async def _resources(self, path: str) -> list[str]:
        """The plurals of a version; none if it has been removed, as during an upgrade."""
        try:
            listed = await self._client.read(path)
        except StatusError as error:
            if error.code == 404:
                return []
            raise
        return [str(resource.get("name", "")) for resource in listed.get("resources") or ()]


class NegotiatingClient:
    """A client in the programs' versions on top of one in the served versions.

    Clients of a cluster may share ``versions``.

    Raises the errors of the underlying client, UnknownVersions, and ValueError (see :meth:`patch`).
    """

    def __init__(self, client: ApiClient, versions: ServedVersions | None = None) -> None:
        self._client = client
        self.versions = versions or ServedVersions(client)

    async def _called(self, resource: Resource, call: Callable[[Resource], Awaitable[T]]) -> T:
        """Call the cluster in a served version, and again if that version has been replaced by another."""
        while True:
            served = await self.versions.of(resource)
            try:
                return await call(served)
            except StatusError as error:
                if not (_no_such_path(error) and await self.versions.changed(resource, served)):
                    raise

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Tree:
        """Get one object."""

        async def call(served: Resource) -> Tree:
            return _read(resource, served, await self._client.get(served, name, namespace, subresource=subresource))

        return await self._called(resource, call)

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> Listing:
        """List all objects."""

        async def call(served: Resource) -> Listing:
            listing = await self._client.list(served, namespace, labels=labels, fields=fields, limit=limit)
            return listing._replace(items=[_read(resource, served, tree) for tree in listing.items])

        return await self._called(resource, call)

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Event]:
        """Yield changes after ``revision``."""
        served = await self.versions.of(resource)
        try:
            async for event in self._client.watch(served, namespace, revision=revision, labels=labels, fields=fields):
                yield Event(event.type, _read(resource, served, event.object))
        except StatusError as error:
            # A cache takes 404 for "no objects" and would drop all: end the watch, so that it lists again.
            if _no_such_path(error) and await self.versions.changed(resource, served):
                return
            raise

    async def create(
        self, resource: Resource, tree: Tree, namespace: str = "", *, name: str = "", subresource: str = "",
        dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Create an object, or a subresource such as a binding or eviction."""

        async def call(served: Resource) -> Tree:
            written = _written(resource, served, tree)
            answer = await self._client.create(
                served, written, namespace, name=name, subresource=subresource, dry_run=dry_run
            )
            return _read(resource, served, answer)

        return await self._called(resource, call)

    async def update(self, resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
        """Replace an object."""

        async def call(served: Resource) -> Tree:
            written = _written(resource, served, tree)
            answer = await self._client.update(served, written, subresource=subresource, dry_run=dry_run)
            return _read(resource, served, answer)

        return await self._called(resource, call)

    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", *, kind: PatchKind = "merge",
        subresource: str = "", force: bool = False, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Change an object. Raises ValueError for a JSON patch with a path that the served version lacks."""

        async def call(served: Resource) -> Tree:
            written = patch if served == resource else patch_from_v1(patch, resource.kind, served.api_version)
            answer = await self._client.patch(
                served, name, written, namespace, kind=kind, subresource=subresource, force=force, dry_run=dry_run
            )
            return _read(resource, served, answer)

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
            return _read(resource, served, answer)

        return await self._called(resource, call)

    async def read(self, path: str, query: Sequence[tuple[str, str]] = (), accept: str = "application/json") -> Tree:
        """The tree at a path, not converted."""
        return await self._client.read(path, query, accept)


def _no_such_path(error: StatusError) -> bool:
    """Whether a 404 is about the resource and not an object, whose name would be in the details."""
    return error.code == 404 and not (error.status.get("details") or {}).get("name")


def _read(resource: Resource, served: Resource, tree: Tree) -> Tree:
    """Convert a response to the program's version and remove managed fields: no program reads them, a write without
    them does not change them, and they are half of a claim. A Status, which a deletion may return, is not changed.
    """
    metadata = tree.get("metadata") or {}
    if "managedFields" in metadata:
        tree = {**tree, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}
    if served == resource or tree.get("kind", resource.kind) != resource.kind:
        return tree
    if resource.api_version == HUB:
        return to_v1({**tree, "kind": resource.kind, "apiVersion": served.api_version})
    return {**tree, "apiVersion": resource.api_version}


def _written(resource: Resource, served: Resource, tree: Tree) -> Tree:
    if served == resource:
        return tree
    if resource.api_version == HUB:
        return from_v1({**tree, "kind": resource.kind, "apiVersion": HUB}, served.api_version)
    return {**tree, "apiVersion": served.api_version}
