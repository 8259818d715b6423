"""MPS daemons that died with the driver's own container, or of themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from allotment.drivers.host import DriverHost
from allotment.drivers.nvidia.config import VERSION
from allotment.drivers.nvidia.driver import NvidiaDriver
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.fleet.nvidia import DRIVER
from allotment.kubelet_plugin.messages import ClaimRef
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import MemoryClient
from tests.unit.drivers.nvidia.nodes import Simulated, node
from tests.unit.drivers.world import memory_host, opaque, put_claim

MPS = {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 30}}


class Life:
    """One claim, prepared, and its daemon dead."""

    def __init__(self, there: Simulated, client: MemoryClient, host: DriverHost, ref: ClaimRef) -> None:
        self.there = there
        self.client = client
        self.host = host
        self.ref = ref

    def driver(self) -> NodeDriver:
        """A process of the driver."""
        driver = NvidiaDriver(self.there.hardware, self.there.driver.mode)
        return NodeDriver(driver, self.host, self.client, IdleClock(), status=False)

    async def kill(self) -> None:
        """Its daemon dies, and the GPU forgets its mode, as it does when nobody has it open."""
        (daemon,) = self.there.daemons()
        await self.there.hardware.stop_mps(daemon.key)
        if not daemon.uuids[0].startswith("MIG"):
            await self.there.hardware.set_compute_mode(self.there.pci[0], "DEFAULT")


def on(story: Callable[[Life], Awaitable[None]], mode: str, kind: str, device: str) -> None:
    async def told() -> None:
        there = await node("dgx-a100-40gb", mode, gpus=1)
        client = MemoryClient()
        wanted = [opaque({"apiVersion": VERSION, "kind": kind, "sharing": MPS}, driver=DRIVER)]
        life = Life(there, client, memory_host(), put_claim(client, "c", device, driver=DRIVER, config=wanted))
        plugin = life.driver()
        assert (await plugin.prepare([life.ref]))[life.ref.uid].error == ""
        before = there.hardware.snapshot()
        await life.kill()
        await story(life)
        assert there.hardware.snapshot() == before

    idle.run(told())


PLACES = [("full", "GpuConfig", "gpu-0"), ("dynamic-mig", "MigDeviceConfig", "gpu-0-mig-3g20gb-9-4")]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place[0])
def test_a_driver_that_starts_again_starts_them_again(place: tuple[str, str, str]) -> None:
    on(lambda life: life.driver().recover(), *place)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place[0])
def test_a_kubelet_that_asks_again_has_them_started(place: tuple[str, str, str]) -> None:
    async def story(life: Life) -> None:
        plugin = life.driver()
        await plugin.recover()
        await life.kill()
        assert (await plugin.prepare([life.ref]))[life.ref.uid].error == ""

    on(story, *place)


def test_what_cannot_be_started_is_told_and_keeps_nothing_from_starting() -> None:
    async def story(life: Life) -> None:
        life.there.faults.fail("start_mps", times=2)
        plugin = life.driver()
        await plugin.recover()
        error = (await plugin.prepare([life.ref]))[life.ref.uid].error
        assert f"claim {life.ref.uid} was prepared, and now: " in error
        assert (await plugin.prepare([life.ref]))[life.ref.uid].error == ""

    on(story, *PLACES[0])


def test_a_mig_device_that_is_gone_is_told_and_not_made_anew() -> None:
    async def told() -> None:
        there = await node("dgx-a100-40gb", "dynamic-mig", gpus=1)
        client, host = MemoryClient(), memory_host()
        ref = put_claim(client, "c", "gpu-0-mig-3g20gb-9-4", driver=DRIVER)
        plugin = NodeDriver(there.driver, host, client, IdleClock(), status=False)
        assert (await plugin.prepare([ref]))[ref.uid].error == ""
        there.hardware.reset(there.pci[0])
        again = NodeDriver(NvidiaDriver(there.hardware, there.driver.mode), host, client, IdleClock(), status=False)
        await again.recover()
        error = (await again.prepare([ref]))[ref.uid].error
        assert "no MIG device of profile 9 is at 4" in error
        assert "delete the claim's pods" in error
        assert await there.hardware.mig_devices(there.pci[0]) == ()
        assert await again.unprepare([ref]) == {ref.uid: ""}
        assert (await again.prepare([ref]))[ref.uid].error == ""

    idle.run(told())
