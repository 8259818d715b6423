"""A driver program: discovery by the kubelet, calls over the socket, and rolling updates."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from allotment.cdi.store import FolderStore
from allotment.cluster.caches import Caches
from allotment.cluster.clock import Clock
from allotment.cluster.resources import NODES, SLICES
from allotment.drivers.driver import HealthUpdate
from allotment.drivers.host import DriverHost, FileStorage
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.drivers.program import DriverOptions, serve
from allotment.drivers.publishing.publisher import Publisher
from allotment.kubelet_plugin.messages import KubeletPlugin
from allotment.kubelet_plugin.plugin_watcher import PluginRegistry
from allotment.model.core import Node
from allotment.model.features import Features
from allotment.model.resource import DeviceTaint, ResourceSlice
from tests.unit.cluster.memory import MemoryClient
from tests.unit.drivers.fake_driver import DRIVER, NODE, FakeDriver, put_claim
from tests.unit.drivers.publishing_cluster import Cluster


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="al-"))  # socket paths must be short
    yield path
    shutil.rmtree(path)


@asynccontextmanager
async def program(
    folder: Path, driver: FakeDriver, cluster: Cluster, claims: MemoryClient, pod_uid: str = ""
) -> AsyncIterator[None]:
    """Run the driver's program; it is stopped as by SIGTERM."""
    clock, stop = Clock(), asyncio.Event()
    caches = Caches(cluster.client, clock=clock, random=Random(1))
    slices, nodes = caches.of(SLICES, ResourceSlice), caches.of(NODES, Node)
    publisher = Publisher(cluster.client, slices, nodes, clock=clock, features=Features("1.36"), random=Random(1))
    storage = FileStorage(folder / "plugins" / DRIVER / "checkpoint.json")
    node_driver = NodeDriver(
        driver, DriverHost(NODE, "boot", storage, FolderStore(folder / "cdi")), claims, clock, random=Random(1)
    )
    options = DriverOptions(NODE, pod_uid, folder / "plugins", folder / "registry", folder / "cdi")
    async with asyncio.TaskGroup() as group:
        follow = group.create_task(caches.run())
        task = group.create_task(serve(node_driver, publisher, options, stop))
        yield
        stop.set()
        await task
        follow.cancel()


class Kubelet:
    """A kubelet that discovers plugins in a folder."""

    def __init__(self, folder: Path) -> None:
        self.changed = asyncio.Event()
        self.registry = PluginRegistry(
            folder / "registry", Clock(50.0), on_change=lambda driver, plugin: self.changed.set()
        )

    async def plugin(self) -> KubeletPlugin:
        """Return the driver when it is connected."""
        while self.registry.connected(DRIVER) is None:
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), 40)
        plugin = self.registry.find(DRIVER)
        assert plugin is not None
        return plugin


@asynccontextmanager
async def run_kubelet(folder: Path) -> AsyncIterator[Kubelet]:
    kubelet = Kubelet(folder)
    (folder / "registry").mkdir(exist_ok=True)
    task = asyncio.create_task(kubelet.registry.run())
    try:
        yield kubelet
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def published(cluster: Cluster, count: int) -> None:
    while len([d for slice_ in cluster.slices() for d in slice_.spec.devices or ()]) != count:
        await asyncio.sleep(0.01)


def test_a_kubelet_finds_and_calls_the_driver(folder: Path) -> None:
    async def main() -> None:
        cluster, claims, driver = Cluster(), MemoryClient(), FakeDriver()
        await cluster.node(NODE)
        ref = put_claim(claims, "c", "gpu-0", shareID="5a1e")
        async with run_kubelet(folder) as node, program(folder, driver, cluster, claims):
            plugin = await node.plugin()
            await published(cluster, 8)
            answer = (await plugin.prepare([ref]))[ref.uid]
            assert answer.error == ""
            assert answer.devices[0].cdi_ids == (f"k8s.{DRIVER}/claim={ref.uid}-gpu-0-5a1e",)
            assert answer.devices[0].share_id == "5a1e"
            stream = plugin.health()
            assert stream is not None
            assert {device.health for device in await anext(stream)} == {"Healthy"}
            taint = DeviceTaint(key="gpu.test/xid", value="79", effect="NoSchedule")
            driver.events.put_nowait(HealthUpdate("gpu-2", "Unhealthy", "fell off the bus", (taint,)))
            health = {device.device: device.health for device in await anext(stream)}
            assert health["gpu-2"] == "Unhealthy"
            while not any(d.taints for slice_ in cluster.slices() for d in slice_.spec.devices or ()):
                await asyncio.sleep(0.01)
            assert await plugin.unprepare([ref]) == {ref.uid: ""}
        # Slices stay for the next process, sockets do not.
        assert len(cluster.devices()) == 8
        assert list((folder / "registry").iterdir()) == []

    asyncio.run(main())


def test_in_a_rolling_update_the_new_process_takes_over_prepared_claims(folder: Path) -> None:
    async def main() -> None:
        cluster, claims, driver = Cluster(), MemoryClient(), FakeDriver()
        await cluster.node(NODE)
        first, second = put_claim(claims, "one", "gpu-0"), put_claim(claims, "two", "gpu-1")
        async with run_kubelet(folder) as node:
            async with program(folder, driver, cluster, claims, "0a"), asyncio.timeout(50):
                answer = await (await node.plugin()).prepare([first])
                await published(cluster, 8)
                before = cluster.generations()
                async with program(folder, driver, cluster, claims, "0b"):
                    old = node.registry.find(DRIVER)
                    while node.registry.find(DRIVER) is old or node.registry.connected(DRIVER) is None:
                        await asyncio.sleep(0.01)
                    new = await node.plugin()
                    assert await new.prepare([first]) == answer
                    assert (await new.prepare([second]))[second.uid].error == ""
                    assert await new.unprepare([first, second]) == {first.uid: "", second.uid: ""}
            assert driver.calls[:2] == [f"prepare {first.uid}", f"prepare {second.uid}"]
            assert set(driver.calls[2:]) == {f"unprepare {first.uid}", f"unprepare {second.uid}"}
        assert cluster.generations() == before

    asyncio.run(main())
