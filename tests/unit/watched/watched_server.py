"""A cluster in memory that a watched cluster follows: it can be down, and forbid kinds or all but one namespace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Final

from allotment.api.clusters.source import ClusterOrigin
from allotment.cluster.client import Listing, Resource, WatchEvent
from allotment.cluster.errors import Unreachable
from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, DEVICE_CLASSES, NAMESPACES, NODES, PODS, SLICES
from allotment.model.core import Namespace, Node, Pod
from allotment.model.meta import Object
from allotment.model.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from allotment.model.trees import Tree, to_tree
from allotment.watched.builder import ClusterIdentity
from allotment.watched.cluster import WatchedCluster
from allotment.watched.live import LiveFeed
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import refusal
from tests.unit.cluster.releases import ALL, ReleaseClient

RESOURCES: Final[dict[type[Object], Resource]] = {
    Namespace: NAMESPACES, Node: NODES, ResourceSlice: SLICES, DeviceClass: DEVICE_CLASSES, ResourceClaim: CLAIMS,
    ResourceClaimTemplate: CLAIM_TEMPLATES, Pod: PODS,
}  # fmt: skip
IDENTITY: Final = ClusterIdentity(ClusterOrigin("cluster", ("--context", "c")), "c", "cluster")


class WatchedServer(ReleaseClient):
    """``is_down``: nothing responds. ``may_list``: the namespaces in which a resource may be listed, "" for all."""

    def __init__(self, *values: Object) -> None:
        served = {
            **ALL["1.37"], "apps/v1": ("deployments", "replicasets", "statefulsets", "daemonsets"),
            "batch/v1": ("jobs", "cronjobs"), "storage.k8s.io/v1": ("storageclasses",),
        }  # fmt: skip
        super().__init__(served)
        self.is_down = False
        self.may_list: dict[Resource, Sequence[str]] = {}
        self.may_not_watch: set[Resource] = set()
        self.add(*values)

    def add(self, *values: Object) -> None:
        """Create or replace objects."""
        for value in values:
            self.put(RESOURCES[type(value)], to_tree(value))

    def take(self, *values: Object) -> None:
        """Remove objects, as their deletion would."""
        for value in values:
            self.remove(RESOURCES[type(value)], value.metadata.namespace, value.metadata.name)

    def go_down(self) -> None:
        """Stop responding, and break off all watches."""
        self.is_down = True
        self.break_off()

    async def __aenter__(self) -> WatchedServer:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def read(self, path: str, query: Sequence[tuple[str, str]] = (), accept: str = "") -> Tree:
        if self.is_down:
            raise Unreachable(f"GET https://127.0.0.1:6443{path}: connection refused")
        return await super().read(path, query, accept)

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> Listing:
        if self.is_down:
            raise Unreachable(f"GET https://127.0.0.1:6443/{resource.plural}: connection refused")
        if namespace not in self.may_list.get(resource, (namespace,)):
            raise refusal(403, "Forbidden", f"{resource.plural} is forbidden")
        return await super().list(resource, namespace, labels=labels, fields=fields, limit=limit)

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent]:
        if resource in self.may_not_watch:
            raise refusal(403, "Forbidden", f"{resource.plural} may not be watched")
        async for event in super().watch(resource, namespace, revision=revision, labels=labels, fields=fields):
            if namespace in ("", event.object["metadata"].get("namespace", "")):
                yield event


@asynccontextmanager
async def watching(server: WatchedServer, namespace: str = "") -> AsyncIterator[WatchedCluster]:
    """Watch a cluster, in simulated time."""
    feed = LiveFeed(lambda: server, IDENTITY, namespace, clock=IdleClock(), random=Random(1))
    watched = WatchedCluster(feed.builder.first("connecting to c"), feed)
    task = asyncio.create_task(watched.run())
    try:
        yield watched
    finally:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.result()
