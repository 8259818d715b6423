"""Programs speak one version of each kind; here a cluster that serves only others is made to understand.

Kubernetes 1.34 and newer serve v1 of ``resource.k8s.io``, 1.33 v1beta2 and v1beta1, 1.32 v1beta1; DeviceTaintRules are
in v1alpha3 until 1.35, in v1beta2 with 1.36, in v1 from 1.37. Whatever goes out is converted to what the server has,
and what comes back to what the program asked for, unknown fields included. On a server that has what programs speak
nothing is in between.

A server answers 404 for a version that it does not serve, whether it has none of the kind or has it in other versions.
So 404 is believed only if discovery agrees; a kind that is there in versions that are all unknown is an error.
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

#: Programs also write claims and slices, and v1alpha3 of those, of Kubernetes 1.31, is too far from today's.
_ANY: Final = ("v1", "v1beta2", "v1beta1")
#: Versions in which programs can speak of a kind, the best first; of all others they speak one.
_SPOKEN: Final[Mapping[Resource, Sequence[str]]] = {
    **dict.fromkeys((CLAIMS, CLAIM_TEMPLATES, DEVICE_CLASSES, SLICES), _ANY),
    **{one: KNOWN_VERSIONS[one.group, one.plural] for one in (TAINT_RULES, POOL_STATUS_REQUESTS, POD_GROUPS)},
}
#: What a group serves is not asked for again before.
_ASK_AGAIN_SECONDS: Final = 10.0


class DeviceApiNotServed(StatusError):
    """The cluster has no devices to give: it does not serve ``resource.k8s.io`` in any version that is understood."""

    def __init__(self, found: str) -> None:
        message = (
            f"this cluster does not serve {GROUP}: expected {', '.join(_ANY[:-1])} or {_ANY[-1]}, found {found}. It is "
            "enabled by default from 1.34; in older releases, set --runtime-config and the gate DynamicResourceAllocation"
        )
        super().__init__({"kind": "Status", "code": 404, "reason": "NotFound", "message": message})


class ApiClient(Client, Reader, Protocol):
    """A client that reads any path, too."""


class _Group(NamedTuple):
    """What a cluster serves of a group: versions by plural. ``asked``: when, by the monotonic clock."""

    asked: float
    served: Mapping[str, Sequence[str]]


class ServedVersions:
    """In which versions a cluster serves kinds: asked by group when that is first needed, by all its clients."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._groups: dict[str, _Group] = {}
        self._asking = asyncio.Lock()
        self._warned: set[str] = set()

    async def check_device_api(self) -> None:
        """Ask the cluster for devices. Raises NotServed, UnknownVersions, StatusError and Unreachable."""
        await self._ask(GROUP, 0.0)
        self._best(CLAIMS)

    async def of(self, resource: Resource) -> Resource:
        """The resource as the cluster has it; itself if the cluster has none of it.

        Raises UnknownVersions if it is served in versions that are all unknown, and NotServed.
        """
        if resource not in _SPOKEN:
            return resource
        await self._ask(resource.group)
        try:
            return self._best(resource)
        except (DeviceApiNotServed, UnknownVersions):  # of several servers one may have been upgraded before the others
            await self._ask(resource.group, _ASK_AGAIN_SECONDS)
            return self._best(resource)

    async def changed(self, resource: Resource, tried: Resource) -> bool:
        """Whether the cluster, which does not know ``tried``, has another version now: it may have been upgraded.

        Raises UnknownVersions if it has only others than those that are known.
        """
        if not resource.group:
            return False
        try:
            await self._ask(resource.group, _ASK_AGAIN_SECONDS)
        except StatusError:
            if resource in _SPOKEN:
                raise
            return False  # who may read the kind need not be allowed to ask what is served
        return self._best(resource) != tried

    def _best(self, resource: Resource) -> Resource:
        spoken = _SPOKEN.get(resource, (resource.version,))
        served = self._groups[resource.group].served
        versions = served.get(resource.plural, ())
        best = next((version for version in spoken if version in versions), "")
        if best:
            return resource._replace(version=best)
        if versions:
            raise self._unknown(resource, versions, spoken)
        if resource.group == GROUP and not served.get(CLAIMS.plural):
            raise DeviceApiNotServed(
                ", ".join(sorted({version for found in served.values() for version in found})) or "none"
            )
        return resource

    def _unknown(self, resource: Resource, versions: Sequence[str], spoken: Sequence[str]) -> UnknownVersions:
        error = UnknownVersions(f"{resource.plural}.{resource.group}", version_mismatch(versions, spoken))
        if str(error) not in self._warned:
            self._warned.add(str(error))
            log.warning("%s", error)
        return error

    async def _ask(self, group: str, after: float | None = None) -> None:
        """Ask what a group serves if that is not known, or was asked more than ``after`` seconds ago."""
        if self._is_known(group, after):
            return
        async with self._asking:
            if not self._is_known(group, after):
                self._groups[group] = _Group(time.monotonic(), await self._served(group))

    def _is_known(self, group: str, after: float | None) -> bool:
        known = self._groups.get(group)
        return known is not None and (after is None or time.monotonic() - known.asked < after)

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
        """The plurals of a version; none if it is gone, as during an upgrade."""
        try:
            listed = await self._client.read(path)
        except StatusError as error:
            if error.code == 404:
                return []
            raise
        return [str(resource.get("name", "")) for resource in listed.get("resources") or ()]


class NegotiatingClient:
    """A client of programs, over one of the cluster; clients of one cluster may share what they know of its versions.

    Raises what the other does, UnknownVersions, and ValueError as :meth:`patch` says.
    """

    def __init__(self, client: ApiClient, versions: ServedVersions | None = None) -> None:
        self._client = client
        self.versions = versions or ServedVersions(client)

    async def _called(self, resource: Resource, call: Callable[[Resource], Awaitable[T]]) -> T:
        """Call the cluster in its version; if it has lost the version that it served, in that which it serves now."""
        while True:
            there = await self.versions.of(resource)
            try:
                return await call(there)
            except StatusError as error:
                if not (_no_such_path(error) and await self.versions.changed(resource, there)):
                    raise

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Tree:
        """One object."""

        async def call(there: Resource) -> Tree:
            return _read(resource, there, await self._client.get(there, name, namespace, subresource=subresource))

        return await self._called(resource, call)

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> Listing:
        """All objects."""

        async def call(there: Resource) -> Listing:
            listing = await self._client.list(there, namespace, labels=labels, fields=fields, limit=limit)
            return listing._replace(items=[_read(resource, there, tree) for tree in listing.items])

        return await self._called(resource, call)

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
            if _no_such_path(error) and await self.versions.changed(resource, there):
                return
            raise

    async def create(
        self, resource: Resource, tree: Tree, namespace: str = "", *, name: str = "", subresource: str = "",
        dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """A new object, or a call such as binding or eviction."""

        async def call(there: Resource) -> Tree:
            written = _written(resource, there, tree)
            answer = await self._client.create(
                there, written, namespace, name=name, subresource=subresource, dry_run=dry_run
            )
            return _read(resource, there, answer)

        return await self._called(resource, call)

    async def update(self, resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
        """Replace an object."""

        async def call(there: Resource) -> Tree:
            written = _written(resource, there, tree)
            answer = await self._client.update(there, written, subresource=subresource, dry_run=dry_run)
            return _read(resource, there, answer)

        return await self._called(resource, call)

    async def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", *, kind: PatchKind = "merge",
        subresource: str = "", force: bool = False, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Change an object. Raises ValueError for a JSON patch whose place the cluster's version does not have."""

        async def call(there: Resource) -> Tree:
            written = patch if there == resource else patch_from_v1(patch, resource.kind, there.api_version)
            answer = await self._client.patch(
                there, name, written, namespace, kind=kind, subresource=subresource, force=force, dry_run=dry_run
            )
            return _read(resource, there, answer)

        return await self._called(resource, call)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str = "", revision: str = "",
        grace_seconds: int | None = None, propagation: Propagation | None = None, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Delete an object."""

        async def call(there: Resource) -> Tree:
            answer = await self._client.delete(
                there, name, namespace, uid=uid, revision=revision, grace_seconds=grace_seconds,
                propagation=propagation, dry_run=dry_run,
            )  # fmt: skip
            return _read(resource, there, answer)

        return await self._called(resource, call)

    async def read(self, path: str, query: Sequence[tuple[str, str]] = (), accept: str = "application/json") -> Tree:
        """The tree at a path, as the cluster has it."""
        return await self._client.read(path, query, accept)


def _no_such_path(error: StatusError) -> bool:
    """Whether the cluster knows no such resource, rather than no such object: of an object it says the name."""
    return error.code == 404 and not (error.status.get("details") or {}).get("name")


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
