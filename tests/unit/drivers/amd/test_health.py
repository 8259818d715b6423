"""AMD's GPUs that are ill: what the kernel counts and who answers become taints, which go when a GPU is well again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from allotment.drivers.amd.driver import AmdDriver
from allotment.drivers.amd.hardware import GpuHealth
from allotment.drivers.amd.health import health_update
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


def told(condition: HealthUpdate) -> tuple[str, str, dict[str, str]]:
    return condition.device, condition.health, {taint.key: taint.value for taint in condition.taints}


async def conditions(news: AsyncIterator[DeviceEvent], driver: AmdDriver, count: int) -> list[HealthUpdate]:
    """The next news of devices, rediscovered in between as the framework does."""
    found: list[HealthUpdate] = []
    async with asyncio.timeout(5):
        async for one in news:
            if isinstance(one, DevicesChanged):
                await driver.discover()
            else:
                found.append(one)
            if len(found) == count:
                return found
    return found


def test_errors_that_could_not_be_corrected_and_gpus_that_do_not_answer_are_read_from_the_kernel(
    tmp_path: Path,
) -> None:
    async def story() -> None:
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

    idle.run(story())


def test_troubles_are_noticed_on_a_host(tmp_path: Path) -> None:
    async def story() -> None:
        node = kernel(tmp_path)
        changes = node.changes()
        seen = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0.02)
        counters = tmp_path / "sys/bus/pci/devices/0000:26:00.0/ras"
        counters.mkdir()
        (counters / "umc_err_count").write_text("ue: 1\n")
        await asyncio.wait_for(seen, 5)

    idle.run(story())


def test_both_troubles_are_told_at_once() -> None:
    one = health_update("gpu-1-128", GpuHealth(lost=True, errors=(("umc", 2), ("sdma", 1))))
    assert told(one) == ("gpu-1-128", "Unhealthy", {LOST: "", RAS: "umc"})
    assert one.message == (
        "the GPU is lost: it no longer answers; errors that could not be corrected in umc: 2; "
        "errors that could not be corrected in sdma: 1"
    )
    assert health_update("gpu-1-128", GpuHealth()) == HealthUpdate("gpu-1-128", "Healthy")


def test_every_partition_of_an_ill_gpu_is_tainted_until_it_is_well() -> None:
    async def story() -> None:
        (machine,) = parse_fleet(["n1=2xmi300x/cpx"])
        node = SimulatedHardware(machine)
        driver = AmdDriver(node, "n1")
        await driver.discover()
        news = driver.watch()
        seen = asyncio.ensure_future(conditions(news, driver, 8))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        node.set_faults("gpu-1=ras")
        first = await seen
        assert [told(one) for one in first] == [(f"gpu-{9 + n}-{136 + n}", "Unhealthy", {RAS: "umc"}) for n in range(8)]
        node.set_faults("gpu-1=lost")
        assert {tuple(told(one)[2]) for one in await conditions(news, driver, 8)} == {(LOST,)}
        node.set_faults("")
        last = await conditions(news, driver, 8)
        assert {one.device for one in last} == {one.device for one in first}
        assert all(one == HealthUpdate(one.device, "Healthy") for one in last)

    idle.run(story())


def test_a_gpu_that_is_ill_from_the_start_is_told() -> None:
    async def story() -> None:
        (machine,) = parse_fleet(["n1=mi300x-8x-oam/spx@v0"])
        node = SimulatedHardware(machine)
        node.set_faults("gpu-0=ras")
        driver = AmdDriver(node, "n1", vocabulary="v0")
        await driver.discover()
        (one,) = await conditions(driver.watch(), driver, 1)
        assert told(one) == ("gpu-1-128", "Unhealthy", {RAS: "umc"})

    idle.run(story())


def test_an_ill_gpu_that_is_divided_taints_its_parts_too() -> None:
    async def story() -> None:
        (machine,) = parse_fleet(["n1=mi300x/auto"])
        node = SimulatedHardware(machine)
        node.set_faults("gpu-0=ras")
        driver = AmdDriver(node, "n1", auto_partition=True)
        (offer,) = await driver.discover()
        found = await conditions(driver.watch(), driver, 5)
        assert {one.device for one in found} == {device.name for group in offer.groups for device in group}

    idle.run(story())
