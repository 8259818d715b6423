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
from tests.unit.drivers.nvidia.nodes import SimulatedNode, simulated_node


class EventListener:
    """Collects the events of a driver."""

    def __init__(self, n: SimulatedNode) -> None:
        self._events: AsyncIterator[DeviceEvent] = n.driver.watch()
        self._next = asyncio.ensure_future(anext(self._events))

    async def events(self) -> list[DeviceEvent]:
        """The events received since the last call."""
        received: list[DeviceEvent] = []
        while True:
            done, _ = await asyncio.wait([self._next], timeout=0.01)
            if not done:
                return received
            received.append(self._next.result())
            self._next = asyncio.ensure_future(anext(self._events))


def run_on_node(scenario: Callable[[SimulatedNode, EventListener], Awaitable[None]], mode: str = "full") -> None:
    async def main() -> None:
        n = await simulated_node("dgx-a100-40gb", mode, gpus=2)
        await scenario(n, EventListener(n))

    idle.run(main())


def test_a_critical_event_taints_the_device() -> None:
    async def scenario(n: SimulatedNode, listener: EventListener) -> None:
        assert await listener.events() == []
        n.hardware.report_xid(n.pci[1], 48)
        taint = DeviceTaint(key="gpu.nvidia.com/xid", value="48", effect="NoSchedule")
        assert await listener.events() == [
            HealthUpdate("gpu-1", "Unhealthy", "Xid 48: double-bit memory error", (taint,))
        ]

    run_on_node(scenario)


@pytest.mark.parametrize("number", sorted(IGNORED))
def test_a_fault_of_a_program_is_reported_without_a_no_schedule_taint(number: int) -> None:
    async def scenario(n: SimulatedNode, listener: EventListener) -> None:
        await listener.events()
        n.hardware.report_xid(n.pci[0], number)
        (event,) = await listener.events()
        assert isinstance(event, HealthUpdate)
        assert (event.health, [taint.effect for taint in event.taints]) == ("Healthy", ["None"])

    run_on_node(scenario)


def test_all_mig_devices_of_an_unhealthy_gpu_are_unhealthy() -> None:
    async def scenario(n: SimulatedNode, listener: EventListener) -> None:
        await listener.events()
        n.hardware.report_xid(n.pci[0], 79)
        events = await listener.events()
        assert len(events) == 25
        assert all(isinstance(each, HealthUpdate) and each.device.startswith("gpu-0-mig-") for each in events)

    run_on_node(scenario, "dynamic-mig")


def test_a_lost_gpu_is_healthy_after_its_reset() -> None:
    async def scenario(n: SimulatedNode, listener: EventListener) -> None:
        await listener.events()
        n.hardware.report_xid(n.pci[0], 79)
        n.hardware.lose(n.pci[0])
        lost = (await listener.events())[-1]
        assert isinstance(lost, HealthUpdate)
        assert {taint.key for taint in lost.taints} == {LOST_TAINT, XID_TAINT}
        assert [device.name for device in (await n.driver.discover())[0].groups[0]] == ["gpu-0", "gpu-1"]
        n.hardware.reset(n.pci[1])
        assert await listener.events() == [DevicesChanged()]
        n.hardware.reset(n.pci[0])
        assert await listener.events() == [DevicesChanged(), HealthUpdate("gpu-0", "Healthy")]

    run_on_node(scenario)


def test_a_gpu_that_is_added_again_is_healthy() -> None:
    async def scenario(n: SimulatedNode, listener: EventListener) -> None:
        gpu = (await n.hardware.gpus())[0]
        await listener.events()
        n.hardware.report_xid(gpu.pci, 79)
        n.hardware.remove(gpu.pci)
        assert DevicesChanged() in await listener.events()
        n.hardware.add(gpu)
        await listener.events()
        n.hardware.report_xid(gpu.pci, 31)
        (event,) = await listener.events()
        assert isinstance(event, HealthUpdate)
        assert event.health == "Healthy"

    run_on_node(scenario)


@given(st.lists(st.integers(0, 200)))
def test_an_ignored_event_does_not_replace_a_critical_one(numbers: list[int]) -> None:
    trouble = GpuHealth()
    for number in numbers:
        trouble = trouble.with_event(Xid("0000:07:00.0", number))
    critical = [number for number in numbers if number and number not in IGNORED]
    effects = {taint.key: taint.effect for taint in trouble.taints}
    assert effects.get(LOST_TAINT) == ("NoSchedule" if 0 in numbers else None)
    assert effects.get(XID_TAINT) == ("NoSchedule" if critical else "None" if set(numbers) & IGNORED else None)
    assert (trouble.status == "Healthy") == (not critical and 0 not in numbers)
    assert bool(trouble.message) == bool(numbers)


def test_the_health_of_an_unmonitored_gpu_is_unknown() -> None:
    async def scenario(n: SimulatedNode, listener: EventListener) -> None:
        await listener.events()
        n.hardware.stop_monitoring(n.pci[0])
        taint = DeviceTaint(key="gpu.nvidia.com/unmonitored", effect="None")
        (event,) = await listener.events()
        assert event == HealthUpdate(
            "gpu-0", "Unknown", "NVIDIA's driver does not report critical events for this GPU", (taint,)
        )
        n.hardware.lose(n.pci[0])
        (event,) = await listener.events()
        assert isinstance(event, HealthUpdate)
        assert (event.health, [each.key for each in event.taints]) == ("Unhealthy", [LOST_TAINT, taint.key])

    run_on_node(scenario)


def test_health_of_a_gpu_whose_address_is_not_a_valid_attribute() -> None:
    async def main() -> None:
        (gpu,) = gpus_of(hardware("dgx-a100-40gb", 1), "n1")
        simulated = SimulatedHardware([gpu._replace(pci="00010000:0f:00.0")])
        driver = NvidiaDriver(simulated, Full())
        await driver.discover()
        watching = driver.watch()
        event = asyncio.ensure_future(anext(watching))
        await asyncio.sleep(0)
        simulated.report_xid("00010000:0f:00.0", 79)
        update = await event
        assert isinstance(update, HealthUpdate)
        assert (update.device, update.health) == ("gpu-0", "Unhealthy")

    idle.run(main())
