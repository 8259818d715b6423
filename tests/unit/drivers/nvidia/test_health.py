import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.drivers.driver import DeviceEvent, DevicesChanged, HealthUpdate
from allotment.drivers.nvidia.driver import NvidiaDriver
from allotment.drivers.nvidia.hardware import Xid
from allotment.drivers.nvidia.health import IGNORED, LOST_TAINT, XID_TAINT, GpuHealth
from allotment.drivers.nvidia.simulated.hardware import SimulatedHardware
from allotment.fleet.hardware import hardware
from allotment.fleet.modes import Full
from allotment.fleet.nvidia import gpus_of
from allotment.model.resource import DeviceTaint
from tests.unit.cluster import idle
from tests.unit.drivers.nvidia.nodes import Simulated, node


class Listening:
    """The news of a driver, as they come."""

    def __init__(self, n: Simulated) -> None:
        self._news: AsyncIterator[DeviceEvent] = n.driver.watch()
        self._next = asyncio.ensure_future(anext(self._news))

    async def news(self) -> list[DeviceEvent]:
        """All that has come by now."""
        found: list[DeviceEvent] = []
        while True:
            done, _ = await asyncio.wait([self._next], timeout=0.01)
            if not done:
                return found
            found.append(self._next.result())
            self._next = asyncio.ensure_future(anext(self._news))


def on(story: Callable[[Simulated, Listening], Awaitable[None]], mode: str = "full") -> None:
    async def told() -> None:
        n = await node("dgx-a100-40gb", mode, gpus=2)
        await story(n, Listening(n))

    idle.run(told())


def test_a_critical_event_keeps_schedulers_away() -> None:
    async def story(n: Simulated, listening: Listening) -> None:
        assert await listening.news() == []
        n.hardware.report_xid(n.pci[1], 48)
        taint = DeviceTaint(key="gpu.nvidia.com/xid", value="48", effect="NoSchedule")
        assert await listening.news() == [
            HealthUpdate("gpu-1", "Unhealthy", "Xid 48: double-bit memory error", (taint,))
        ]

    on(story)


@pytest.mark.parametrize("number", sorted(IGNORED))
def test_a_fault_of_a_program_is_told_and_keeps_nobody_away(number: int) -> None:
    async def story(n: Simulated, listening: Listening) -> None:
        await listening.news()
        n.hardware.report_xid(n.pci[0], number)
        (news,) = await listening.news()
        assert isinstance(news, HealthUpdate)
        assert (news.health, [taint.effect for taint in news.taints]) == ("Healthy", ["None"])

    on(story)


def test_all_pieces_of_a_gpu_share_its_fate() -> None:
    async def story(n: Simulated, listening: Listening) -> None:
        await listening.news()
        n.hardware.report_xid(n.pci[0], 79)
        news = await listening.news()
        assert len(news) == 25
        assert all(isinstance(each, HealthUpdate) and each.device.startswith("gpu-0-mig-") for each in news)

    on(story, "dynamic-mig")


def test_a_lost_gpu_is_well_again_after_its_reset() -> None:
    async def story(n: Simulated, listening: Listening) -> None:
        await listening.news()
        n.hardware.report_xid(n.pci[0], 79)
        n.hardware.lose(n.pci[0])
        lost = (await listening.news())[-1]
        assert isinstance(lost, HealthUpdate)
        assert {taint.key for taint in lost.taints} == {LOST_TAINT, XID_TAINT}
        assert [device.name for device in (await n.driver.discover())[0].groups[0]] == ["gpu-0", "gpu-1"]
        n.hardware.reset(n.pci[1])
        assert await listening.news() == [DevicesChanged()]
        n.hardware.reset(n.pci[0])
        assert await listening.news() == [DevicesChanged(), HealthUpdate("gpu-0", "Healthy")]

    on(story)


def test_a_gpu_that_comes_back_brings_no_old_troubles() -> None:
    async def story(n: Simulated, listening: Listening) -> None:
        gpu = (await n.hardware.gpus())[0]
        await listening.news()
        n.hardware.report_xid(gpu.pci, 79)
        n.hardware.remove(gpu.pci)
        assert DevicesChanged() in await listening.news()
        n.hardware.add(gpu)
        await listening.news()
        n.hardware.report_xid(gpu.pci, 31)
        (news,) = await listening.news()
        assert isinstance(news, HealthUpdate)
        assert news.health == "Healthy"

    on(story)


@given(st.lists(st.integers(0, 200)))
def test_an_ignored_event_hides_no_critical_one(numbers: list[int]) -> None:
    trouble = GpuHealth()
    for number in numbers:
        trouble = trouble.with_event(Xid("0000:07:00.0", number))
    critical = [number for number in numbers if number and number not in IGNORED]
    effects = {taint.key: taint.effect for taint in trouble.taints}
    assert effects.get(LOST_TAINT) == ("NoSchedule" if 0 in numbers else None)
    assert effects.get(XID_TAINT) == ("NoSchedule" if critical else "None" if set(numbers) & IGNORED else None)
    assert (trouble.status == "Healthy") == (not critical and 0 not in numbers)
    assert bool(trouble.message) == bool(numbers)


def test_a_gpu_whose_events_cannot_be_had_is_said_to_be_unknown() -> None:
    async def story(n: Simulated, listening: Listening) -> None:
        await listening.news()
        n.hardware.stop_monitoring(n.pci[0])
        taint = DeviceTaint(key="gpu.nvidia.com/unmonitored", effect="None")
        (news,) = await listening.news()
        assert news == HealthUpdate("gpu-0", "Unknown", "the driver does not tell the GPU's critical events", (taint,))
        n.hardware.lose(n.pci[0])
        (news,) = await listening.news()
        assert isinstance(news, HealthUpdate)
        assert (news.health, [each.key for each in news.taints]) == ("Unhealthy", [LOST_TAINT, taint.key])

    on(story)


def test_a_gpu_with_an_address_that_no_attribute_can_have_has_its_troubles() -> None:
    async def told() -> None:
        (one,) = gpus_of(hardware("dgx-a100-40gb", 1), "n1")
        there = SimulatedHardware([one._replace(pci="00010000:0f:00.0")])
        driver = NvidiaDriver(there, Full())
        await driver.discover()
        watching = driver.watch()
        news = asyncio.ensure_future(anext(watching))
        await asyncio.sleep(0)
        there.report_xid("00010000:0f:00.0", 79)
        condition = await news
        assert isinstance(condition, HealthUpdate)
        assert (condition.device, condition.health) == ("gpu-0", "Unhealthy")

    idle.run(told())
