"""An API in this process with a publisher on it: what is written is counted, and may be refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from allotment.apiserver.access.authentication import Authenticator
from allotment.apiserver.access.authorization import Authorizer
from allotment.apiserver.access.reviews import AccessControl
from allotment.apiserver.api import Api
from allotment.apiserver.built_in_kinds import built_in_kinds
from allotment.apiserver.kinds.kind import User
from allotment.apiserver.local_client import LocalClient
from allotment.apiserver.storage.sqlite import SqliteStore
from allotment.cluster.caches import Caches
from allotment.cluster.clock import Clock
from allotment.cluster.resources import NODES, SLICES
from allotment.drivers.driver import DevicePool
from allotment.drivers.publishing.publisher import PoolWarning, Publisher
from allotment.engine.cluster.identity import PoolID
from allotment.engine.cluster.pools import PoolRules, PoolStatus, gather_pool
from allotment.lab.control_plane import RandomIds
from allotment.model.core import Node
from allotment.model.features import Features
from allotment.model.resource import Device, DeviceAttribute, DeviceTaint, ResourceSlice
from allotment.model.trees import Tree, read_value
from tests.unit.cluster.idle import IdleClock
from tests.waiting import until

DRIVER = "gpu.example.com"
FEATURES = Features("1.36")


class Writes:
    """A client that notes every write, tells after each, and refuses when asked to."""

    def __init__(self, client: LocalClient) -> None:
        self._client = client
        self.done: list[str] = []
        self.after: Callable[[], Any] = lambda: None
        self.before: Callable[[str], None] = lambda verb: None

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._client, name)
        if name not in ("create", "update", "delete", "patch"):
            return act

        async def noted(*args: Any, **more: Any) -> Any:
            if more.get("dry_run"):
                return await act(*args, **more)
            self.before(name)
            answer = await act(*args, **more)
            self.done.append(name)
            self.after()
            return answer

        return noted


class Cluster:
    """An API with a node, and at most one publisher at a time."""

    def __init__(self, features: Features = FEATURES) -> None:
        self.store = SqliteStore.open(None)
        self.clock = Clock(600.0)
        authorizer = Authorizer(self.store)
        authenticator = Authenticator(self.store, clock=self.clock.moment, key=b"k" * 32, authorize=authorizer)
        self.api = Api(
            self.store, built_in_kinds(features), clock=self.clock.moment, ids=RandomIds(1), features=features,
            access=AccessControl(authenticator, authorizer), companions=lambda namespace: (),
        )  # fmt: skip
        #: For others than the publisher.
        self.client = LocalClient(self.api, User("admin", ("system:masters",)), "test")
        self.writes = Writes(self.client)
        self.features = features
        self.notes: list[PoolWarning] = []

    async def node(self, name: str = "n1") -> Tree:
        return await self.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})

    def trees(self) -> list[Tree]:
        return sorted((e.tree for e in self.store.list("resourceslices.resource.k8s.io")), key=_name)

    def slices(self, pool: str = "n1") -> list[ResourceSlice]:
        every = [read_value(tree, ResourceSlice) for tree in self.trees()]
        return [one for one in every if one.spec.pool.name == pool]

    def status(self, pool: str = "n1") -> PoolStatus | None:
        """What a scheduler makes of the pool."""
        every = self.slices(pool)
        seen = gather_pool(PoolID(DRIVER, pool), every, every, PoolRules(True, True))
        return seen.status if seen is not None else None

    def devices(self, pool: str = "n1") -> list[str]:
        return [device.name for one in self.slices(pool) for device in one.spec.devices or ()]

    def generations(self, pool: str = "n1") -> list[int]:
        return [one.spec.pool.generation for one in self.slices(pool)]

    @asynccontextmanager
    async def publisher(
        self, *, speed: float = 1.0, known: Features | None = None, simulated: bool = False
    ) -> AsyncIterator[Publisher]:
        """A publisher that runs. ``known``: what it believes of the cluster."""
        clock = IdleClock(speed)
        caches = Caches(self.client, clock=clock, random=Random(1))
        slices, nodes = caches.of(SLICES, ResourceSlice), caches.of(NODES, Node)
        publisher = Publisher(
            self.writes, slices, nodes, clock=clock, features=known or self.features, random=Random(1),
            report=self.notes.append, simulated=simulated,
        )  # fmt: skip
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(caches.run()), group.create_task(publisher.run())]
            try:
                yield publisher
            finally:
                for task in tasks:
                    task.cancel()

    async def publish(
        self, *offers: DevicePool, node: str = "n1", known: Features | None = None, simulated: bool = False
    ) -> None:
        """One life of a driver: it publishes, and is gone when all is there."""
        async with self.publisher(known=known, simulated=simulated) as publisher:
            publisher.set_pools(DRIVER, node, offers)
            await publisher.wait_published(DRIVER, node)

    async def until(self, true: Callable[[], object]) -> None:
        await until(true, self.trees)


def _name(tree: Tree) -> str:
    return str(tree["metadata"]["name"])


def device(name: str, *taints: DeviceTaint, **attributes: str) -> Device:
    return Device(
        name=name, taints=taints, attributes={key: DeviceAttribute(string=value) for key, value in attributes.items()}
    )


def offer(*groups: Sequence[str], model: str = "m", pool: str = "") -> DevicePool:
    """Groups of devices by their names."""
    return DevicePool([[device(name, model=model) for name in group] for group in groups], name=pool)
