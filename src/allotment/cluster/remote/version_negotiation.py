"""Discovers the versions that a cluster serves, for clients that convert between them and the programs' versions.

Kubernetes 1.34 and newer serve v1 of ``resource.k8s.io``, 1.33 v1beta2 and v1beta1, 1.32 v1beta1; DeviceTaintRules are
in v1alpha3 until 1.35, in v1beta2 with 1.36, in v1 from 1.37; PodGroups in v1alpha2 with 1.36, in v1beta1 from 1.37.

A server returns 404 for a version that it does not serve, even if it serves the kind in other versions. Therefore 404
is accepted only if discovery agrees; a kind that is served only in unknown versions is an error.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from allotment.cluster.client import Client, Reader, Resource
from allotment.cluster.converting_client import CONVERTIBLE, DEVICE_API_VERSIONS, ConvertingClient, best_version
from allotment.cluster.errors import StatusError, UnknownVersions
from allotment.cluster.resources import CLAIMS
from allotment.model.fields import GROUP
from allotment.model.known_versions import version_mismatch
from allotment.model.trees import Tree

log = logging.getLogger(__name__)

#: Minimum interval between discoveries of a group.
_DISCOVERY_SECONDS: Final = 10.0


class DeviceApiNotServed(StatusError):
    """Raised if the cluster does not serve ``resource.k8s.io`` in any known version."""

    def __init__(self, found: str) -> None:
        expected = f"{', '.join(DEVICE_API_VERSIONS[:-1])} or {DEVICE_API_VERSIONS[-1]}"
        message = (
            f"this cluster does not serve {GROUP}: expected {expected}, found {found}. It is "
            "enabled by default since 1.34; in older releases, set --runtime-config and the feature gate "
            "DynamicResourceAllocation"
        )
        super().__init__({"kind": "Status", "code": 404, "reason": "NotFound", "message": message})


class ApiClient(Client, Reader, Protocol):
    """A client that can also read any path."""


class _Group(NamedTuple):
    """The served versions of a group by plural. ``discovered``: time of discovery, in monotonic seconds."""

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
        if resource not in CONVERTIBLE:
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
            if resource in CONVERTIBLE:
                raise
            return False  # discovery may be forbidden although reading is allowed
        return self._best(resource) != tried

    def _best(self, resource: Resource) -> Resource:
        served = self._groups[resource.group].served
        versions = served.get(resource.plural, ())
        if best := best_version(resource, versions):
            return resource._replace(version=best)
        if versions:
            raise self._unknown(resource, versions, CONVERTIBLE.get(resource, (resource.version,)))
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


class NegotiatingClient(ConvertingClient):
    """A client of a remote cluster in the programs' versions, on top of one in the served versions.

    Clients of a cluster may share ``versions``.
    """

    def __init__(self, client: ApiClient, versions: ServedVersions | None = None) -> None:
        self.versions = versions or ServedVersions(client)
        super().__init__(client, self.versions)
        self._reader = client

    async def read(self, path: str, query: Sequence[tuple[str, str]] = (), accept: str = "application/json") -> Tree:
        """The tree at a path, not converted."""
        return await self._reader.read(path, query, accept)
