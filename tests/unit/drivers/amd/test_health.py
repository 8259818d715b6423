"""Health of AMD GPUs: error counters and lost GPUs become taints, which are removed when a GPU is healthy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from allotment.drivers.amd.driver import AmdDriver, health_update
from allotment.drivers.amd.hardware import GpuHealth
from allotment.drivers.amd.kernel import KernelHardware
from allotment.drivers.amd.kernel_files import HostFiles
from allotment.drivers.amd.simulated.hardware import SimulatedHardware
from allotment.drivers.amd.simulated.sysfs_tree import write_tree
from allotment.drivers.driver import DeviceEvent, DevicesChanged, HealthUpdate
from allotment.fleet import hardware, parse_fleet, parse_mode
from allotment.fleet.amd import gpus_of
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock

RAS, LOST = "gpu.amd.com/ras", "gpu.amd.com/gpu-lost"


def kernel(root: Path) -> KernelHardware:
    machine = hardware("mi300x-8x-oam", 2)
    write_tree(gpus_of(machine, "n", parse_mode("", machine)), root, dies=8)
    return KernelHardware(HostFiles(root), IdleClock(1000))


def summary(update: HealthUpdate) -> tuple[str, str, dict[str, str]]:
    return update.device, update.health, {taint.key: taint.value for taint in update.taints}


async def next_updates(events: AsyncIterator[DeviceEvent], driver: AmdDriver, count: int) -> list[HealthUpdate]:
    """The next health updates, with a new discovery whenever the devices changed, as in the node driver."""
    updates: list[HealthUpdate] = []
    async with asyncio.timeout(5):
        async for event in events:
            if isinstance(event, DevicesChanged):
                await driver.discover()
            else:
                updates.append(event)
            if len(updates) == count:
                return updates
    return updates


def test_uncorrectable_errors_and_lost_gpus_are_read_from_the_kernel(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = kernel(tmp_path)
        device = tmp_path / "sys/bus/pci/devices/0000:26:00.0"
        (device / "ras").mkdir()
        (device / "ras/umc_err_count").write_text("ue: 0\nce: 12\n")
        (device / "ras/gpu_vram_bad_pages").write_text("0x1000 : 0x1000 : R\n")
        (device / "config").write_bytes(b"\x02\x10\xa1\x74" + bytes(60))
        assert await node.unhealthy_gpus() == {}
        (device / "ras/umc_err_count").write_text("ue: 2\nce: 12\nde: 0\n")
        (device / "ras/gfx_err_count").write_text("ue: 1\nce: 0\n")
        assert await node.unhealthy_gpus() == {"0000:26:00.0": GpuHealth(errors=(("gfx", 1), ("umc", 2)))}
        (device / "config").write_bytes(b"\xff" * 64)
        assert (await node.unhealthy_gpus())["0000:26:00.0"].lost

    idle.run(scenario())


def test_health_changes_are_noticed_on_a_host(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = kernel(tmp_path)
        changes = node.changes()
        change = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0.02)
        counters = tmp_path / "sys/bus/pci/devices/0000:26:00.0/ras"
        counters.mkdir()
        (counters / "umc_err_count").write_text("ue: 1\n")
        await asyncio.wait_for(change, 5)

    idle.run(scenario())


def test_both_faults_are_reported_together() -> None:
    update = health_update("gpu-1-128", GpuHealth(lost=True, errors=(("umc", 2), ("sdma", 1))))
    assert summary(update) == ("gpu-1-128", "Unhealthy", {LOST: "", RAS: "umc"})
    assert update.message == (
        "the GPU is lost: it no longer responds; uncorrectable errors in umc: 2; uncorrectable errors in sdma: 1"
    )
    assert health_update("gpu-1-128", GpuHealth()) == HealthUpdate("gpu-1-128", "Healthy")


def test_every_partition_of_an_unhealthy_gpu_is_tainted_until_it_is_healthy() -> None:
    async def scenario() -> None:
        (machine,) = parse_fleet(["n1=2xmi300x/cpx"])
        node = SimulatedHardware(machine)
        driver = AmdDriver(node, "n1")
        await driver.discover()
        events = driver.watch()
        updates = asyncio.ensure_future(next_updates(events, driver, 8))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        node.set_faults("gpu-1=ras")
        first = await updates
        assert [summary(update) for update in first] == [
            (f"gpu-{9 + n}-{136 + n}", "Unhealthy", {RAS: "umc"}) for n in range(8)
        ]
        node.set_faults("gpu-1=lost")
        assert {tuple(summary(update)[2]) for update in await next_updates(events, driver, 8)} == {(LOST,)}
        node.set_faults("")
        last = await next_updates(events, driver, 8)
        assert {update.device for update in last} == {update.device for update in first}
        assert all(update == HealthUpdate(update.device, "Healthy") for update in last)

    idle.run(scenario())


def test_a_gpu_that_is_unhealthy_from_the_start_is_reported() -> None:
    async def scenario() -> None:
        (machine,) = parse_fleet(["n1=mi300x-8x-oam/spx@v0"])
        node = SimulatedHardware(machine)
        node.set_faults("gpu-0=ras")
        driver = AmdDriver(node, "n1", vocabulary="v0")
        await driver.discover()
        (update,) = await next_updates(driver.watch(), driver, 1)
        assert summary(update) == ("gpu-1-128", "Unhealthy", {RAS: "umc"})

    idle.run(scenario())


def test_partitions_created_on_an_unhealthy_gpu_are_tainted() -> None:
    async def scenario() -> None:
        (machine,) = parse_fleet(["n1=mi300x/auto"])
        node = SimulatedHardware(machine)
        node.set_faults("gpu-0=ras")
        driver = AmdDriver(node, "n1", auto_partition=True)
        (pool,) = await driver.discover()
        updates = await next_updates(driver.watch(), driver, 5)
        assert {update.device for update in updates} == {device.name for group in pool.groups for device in group}

    idle.run(scenario())
