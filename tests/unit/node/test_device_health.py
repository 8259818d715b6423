"""Device health in pod statuses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

from allotment.cdi.spec import CdiDevice, ContainerEdits, Spec
from allotment.cdi.store import MemoryStore
from allotment.kubelet_plugin.messages import DeviceHealth, Health, HealthNotSupported
from allotment.model.trees import Tree
from allotment.node.device_health import DeviceHealths
from allotment.node.node_config import Machine
from tests.unit.cluster import idle
from tests.unit.node.world import DRIVER, NODE, FakeDriver, World, world

ID = f"k8s.{DRIVER}/claim=uid-of-gpu-gpu-0"


def machine() -> Machine:
    store = MemoryStore()
    edits = ContainerEdits(env=("GPU=0",))
    store.write("claim", Spec(f"k8s.{DRIVER}/claim", (CdiDevice("uid-of-gpu-gpu-0", edits),), ContainerEdits()))
    return Machine(cdi=(store,))


def report(health: Health, *, timeout: int = 0, message: str = "", age: float = 0) -> list[DeviceHealth]:
    return [DeviceHealth(NODE, "gpu-0", health, int(time.time() - age), timeout, message)]


def shown(on: World) -> list[Tree]:
    found: list[Tree] = on.main().get("allocatedResourcesStatus", [])
    return found


def resource(**fields: str) -> list[Tree]:
    return [{"resourceID": ID, **fields}]


def test_a_pod_status_reports_device_health() -> None:
    driver = FakeDriver()

    async def run() -> None:
        driver.health_stream = asyncio.Queue()
        async with world(driver, machine=machine()) as on:
            on.claim()
            claims = [{"name": "c"}, {"name": "c", "request": "gpu"}]
            on.pod(main={"resources": {"claims": claims}}, **on.with_claim())
            await on.until(lambda: on.phase() == "Running")
            assert shown(on) == [], "no report yet"
            await driver.health_stream.put(report("Healthy"))
            await on.until(lambda: len(shown(on)) == 2)
            assert shown(on) == [
                {"name": "claim:c", "resources": resource(health="Healthy")},
                {"name": "claim:c/gpu", "resources": resource(health="Healthy")},
            ]
            await driver.health_stream.put(report("Unhealthy", message="Xid 79"))
            await on.until(lambda: shown(on)[0]["resources"] == resource(health="Unhealthy", message="Xid 79"))

    idle.run(asyncio.wait_for(run(), 10))


def test_a_report_without_a_device_does_not_change_its_health() -> None:
    driver = FakeDriver()

    async def run() -> None:
        driver.health_stream = asyncio.Queue()
        async with world(driver, machine=machine()) as on:
            on.claim()
            on.pod(main={"resources": {"claims": [{"name": "c"}]}}, **on.with_claim())
            await on.until(lambda: on.phase() == "Running")
            await driver.health_stream.put(report("Healthy", timeout=1))
            await on.until(lambda: shown(on) and shown(on)[0]["resources"] == resource(health="Healthy"))
            await driver.health_stream.put([])
            await on.until(driver.health_stream.empty)
            assert shown(on)[0]["resources"] == resource(health="Healthy")
            # Its own report expires.
            await on.until(lambda: shown(on)[0]["resources"] == resource(health="Unknown"))

    idle.run(asyncio.wait_for(run(), 10))


def test_health_is_not_followed_if_the_driver_answers_unimplemented() -> None:
    class Unsupported(FakeDriver):
        streams_opened = 0

        def health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
            return self._stream()

        async def _stream(self) -> AsyncIterator[Sequence[DeviceHealth]]:
            self.streams_opened += 1
            if self.streams_opened:
                raise HealthNotSupported("rpc error: code = Unimplemented desc = not supported")
            yield ()

    driver = Unsupported()
    healths = DeviceHealths(lambda node, driver, devices: None)
    idle.run(asyncio.wait_for(healths.follow(NODE, driver), 10))
    assert driver.streams_opened == 1


def test_health_is_unknown_after_the_timeout() -> None:
    driver = FakeDriver()

    async def run() -> None:
        driver.health_stream = asyncio.Queue()
        async with world(driver, machine=machine()) as on:
            on.claim()
            on.pod(main={"resources": {"claims": [{"name": "c"}]}}, **on.with_claim())
            await on.until(lambda: on.phase() == "Running")
            await driver.health_stream.put(report("Healthy", timeout=3, age=2))
            await on.until(lambda: shown(on) and shown(on)[0]["resources"] == resource(health="Healthy"))
            await on.until(lambda: shown(on)[0]["resources"] == resource(health="Unknown"))

    idle.run(asyncio.wait_for(run(), 10))


def test_a_driver_without_health_adds_nothing_to_the_status() -> None:
    async def run() -> None:
        async with world(FakeDriver(), machine=machine()) as on:
            on.claim()
            on.pod(main={"resources": {"claims": [{"name": "c"}]}}, **on.with_claim())
            await on.until(lambda: on.phase() == "Running")
            assert "allocatedResourcesStatus" not in on.main()

    idle.run(asyncio.wait_for(run(), 10))
