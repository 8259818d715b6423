"""An API server and a publisher in the test's process, with a client that records and can reject writes."""

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
from tests.polling import until
from tests.unit.cluster.idle import IdleClock

DRIVER = "gpu.example.com"
FEATURES = Features("1.36")


class WriteRecorder:
    """A client that records every write, with hooks before and after each."""

    def __init__(self, client: LocalClient) -> None:
        self._client = client
        self.verbs: list[str] = []
        self.after: Callable[[], Any] = lambda: None
        self.before: Callable[[str], None] = lambda verb: None

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._client, name)
        if name not in ("create", "update", "delete", "patch"):
            return act

        async def recorded(*args: Any, **more: Any) -> Any:
            if more.get("dry_run"):
                return await act(*args, **more)
            self.before(name)
            answer = await act(*args, **more)
            self.verbs.append(name)
            self.after()
            return answer

        return recorded


class Cluster:
    """An API server with a node, and at most one publisher at a time."""

    def __init__(self, features: Features = FEATURES) -> None:
        self.store = SqliteStore.open(None)
        self.clock = Clock(600.0)
        authorizer = Authorizer(self.store)
        authenticator = Authenticator(self.store, clock=self.clock.moment, key=b"k" * 32, authorize=authorizer)
        self.api = Api(
            self.store, built_in_kinds(features), clock=self.clock.moment, ids=RandomIds(1), features=features,
            access=AccessControl(authenticator, authorizer), namespace_objects=lambda namespace: (),
        )  # fmt: skip
        #: For requests other than the publisher's.
        self.client = LocalClient(self.api, User("admin", ("system:masters",)), "test")
        self.recorder = WriteRecorder(self.client)
        self.features = features
        self.warnings: list[PoolWarning] = []

    async def node(self, name: str = "n1") -> Tree:
        return await self.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})

    def trees(self) -> list[Tree]:
        return sorted((e.tree for e in self.store.list("resourceslices.resource.k8s.io")), key=_name)

    def slices(self, pool: str = "n1") -> list[ResourceSlice]:
        slices = [read_value(tree, ResourceSlice) for tree in self.trees()]
        return [slice_ for slice_ in slices if slice_.spec.pool.name == pool]

    def status(self, pool: str = "n1") -> PoolStatus | None:
        """Return the pool's status for a scheduler."""
        slices = self.slices(pool)
        state = gather_pool(PoolID(DRIVER, pool), slices, slices, PoolRules(True, True))
        return state.status if state is not None else None

    def devices(self, pool: str = "n1") -> list[str]:
        return [device.name for slice_ in self.slices(pool) for device in slice_.spec.devices or ()]

    def generations(self, pool: str = "n1") -> list[int]:
        return [slice_.spec.pool.generation for slice_ in self.slices(pool)]

    @asynccontextmanager
    async def publisher(
        self, *, speed: float = 1.0, known: Features | None = None, simulated: bool = False
    ) -> AsyncIterator[Publisher]:
        """Run a publisher. ``known``: its features, if they differ from those of the API server."""
        clock = IdleClock(speed)
        caches = Caches(self.client, clock=clock, random=Random(1))
        slices, nodes = caches.of(SLICES, ResourceSlice), caches.of(NODES, Node)
        publisher = Publisher(
            self.recorder, slices, nodes, clock=clock, features=known or self.features, random=Random(1),
            report=self.warnings.append, simulated=simulated,
        )  # fmt: skip
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(caches.run()), group.create_task(publisher.run())]
            try:
                yield publisher
            finally:
                for task in tasks:
                    task.cancel()

    async def publish(
        self, *pools: DevicePool, node: str = "n1", known: Features | None = None, simulated: bool = False
    ) -> None:
        """Run a driver's publisher until all pools are published."""
        async with self.publisher(known=known, simulated=simulated) as publisher:
            publisher.set_pools(DRIVER, node, pools)
            await publisher.wait_published(DRIVER, node)

    async def until(self, true: Callable[[], object]) -> None:
        await until(true, self.trees)


def _name(tree: Tree) -> str:
    return str(tree["metadata"]["name"])


def device(name: str, *taints: DeviceTaint, **attributes: str) -> Device:
    return Device(
        name=name, taints=taints, attributes={key: DeviceAttribute(string=value) for key, value in attributes.items()}
    )


def pool_of(*groups: Sequence[str], model: str = "m", name: str = "") -> DevicePool:
    """Return a pool with groups of devices by name."""
    return DevicePool([[device(name, model=model) for name in group] for group in groups], name=name)
