"""Recovery of MPS daemons that ended with the driver's container, or by themselves."""

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
from tests.unit.drivers.fake_driver import memory_host, opaque, put_claim
from tests.unit.drivers.nvidia.nodes import SimulatedNode, simulated_node

MPS = {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 30}}


class PreparedNode:
    """A node with one prepared claim, whose daemon has ended."""

    def __init__(self, simulated: SimulatedNode, client: MemoryClient, host: DriverHost, ref: ClaimRef) -> None:
        self.simulated = simulated
        self.client = client
        self.host = host
        self.ref = ref

    def driver(self) -> NodeDriver:
        """A new process of the driver."""
        driver = NvidiaDriver(self.simulated.hardware, self.simulated.driver.mode)
        return NodeDriver(driver, self.host, self.client, IdleClock(), status=False)

    async def kill(self) -> None:
        """Stop the claim's daemon and reset the GPU's compute mode, as the driver does when no process has the GPU
        open.
        """
        (daemon,) = self.simulated.daemons()
        await self.simulated.hardware.stop_mps(daemon.key)
        if not daemon.uuids[0].startswith("MIG"):
            await self.simulated.hardware.set_compute_mode(self.simulated.pci[0], "DEFAULT")


def run_prepared(scenario: Callable[[PreparedNode], Awaitable[None]], mode: str, kind: str, device: str) -> None:
    async def main() -> None:
        simulated = await simulated_node("dgx-a100-40gb", mode, gpus=1)
        client = MemoryClient()
        configs = [opaque({"apiVersion": VERSION, "kind": kind, "sharing": MPS}, driver=DRIVER)]
        prepared = PreparedNode(
            simulated, client, memory_host(), put_claim(client, "c", device, driver=DRIVER, config=configs)
        )
        plugin = prepared.driver()
        assert (await plugin.prepare([prepared.ref]))[prepared.ref.uid].error == ""
        before = simulated.hardware.snapshot()
        await prepared.kill()
        await scenario(prepared)
        assert simulated.hardware.snapshot() == before

    idle.run(main())


DEVICES = [("full", "GpuConfig", "gpu-0"), ("dynamic-mig", "MigDeviceConfig", "gpu-0-mig-3g20gb-9-4")]


@pytest.mark.parametrize("case", DEVICES, ids=lambda case: case[0])
def test_a_restarted_driver_starts_the_daemons_again(case: tuple[str, str, str]) -> None:
    run_prepared(lambda prepared: prepared.driver().recover(), *case)


@pytest.mark.parametrize("case", DEVICES, ids=lambda case: case[0])
def test_a_repeated_prepare_call_starts_the_daemons_again(case: tuple[str, str, str]) -> None:
    async def scenario(prepared: PreparedNode) -> None:
        plugin = prepared.driver()
        await plugin.recover()
        await prepared.kill()
        assert (await plugin.prepare([prepared.ref]))[prepared.ref.uid].error == ""

    run_prepared(scenario, *case)


def test_a_daemon_that_cannot_start_is_reported_and_does_not_block_the_driver() -> None:
    async def scenario(prepared: PreparedNode) -> None:
        prepared.simulated.faults.fail("start_mps", times=2)
        plugin = prepared.driver()
        await plugin.recover()
        error = (await plugin.prepare([prepared.ref]))[prepared.ref.uid].error
        assert f"claim {prepared.ref.uid} was prepared, but is no longer ready: " in error
        assert (await plugin.prepare([prepared.ref]))[prepared.ref.uid].error == ""

    run_prepared(scenario, *DEVICES[0])


def test_a_missing_mig_device_is_reported_and_not_created_again() -> None:
    async def main() -> None:
        simulated = await simulated_node("dgx-a100-40gb", "dynamic-mig", gpus=1)
        client, host = MemoryClient(), memory_host()
        ref = put_claim(client, "c", "gpu-0-mig-3g20gb-9-4", driver=DRIVER)
        plugin = NodeDriver(simulated.driver, host, client, IdleClock(), status=False)
        assert (await plugin.prepare([ref]))[ref.uid].error == ""
        simulated.hardware.reset(simulated.pci[0])
        restarted = NodeDriver(
            NvidiaDriver(simulated.hardware, simulated.driver.mode), host, client, IdleClock(), status=False
        )
        await restarted.recover()
        error = (await restarted.prepare([ref]))[ref.uid].error
        assert "no MIG device with profile 9 at start 4" in error
        assert "delete the claim's pods" in error
        assert await simulated.hardware.mig_devices(simulated.pci[0]) == ()
        assert await restarted.unprepare([ref]) == {ref.uid: ""}
        assert (await restarted.prepare([ref]))[ref.uid].error == ""

    idle.run(main())
