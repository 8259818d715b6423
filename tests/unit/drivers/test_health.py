"""Device health is repeated before it expires."""

from __future__ import annotations

import asyncio

import pytest

from allotment.drivers import health
from allotment.drivers.driver import DevicePool
from allotment.drivers.health import HealthTable
from allotment.model.resource import Device
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock


@pytest.mark.parametrize("speed", [0.01, 1000.0], ids=["slow", "fast"])
def test_health_is_repeated_in_real_time(speed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet's timeout is in real time, which may differ from a lab's."""
    monkeypatch.setattr(health, "_REPEAT_SECONDS", 0.05)

    async def count_messages() -> int:
        board = HealthTable("node", IdleClock(speed))
        board.set_devices((DevicePool(((Device(name="gpu-0"),),)),))
        count = 0

        async def listen() -> None:
            nonlocal count
            async for devices in board.stream():
                assert [device.health for device in devices] == ["Healthy"]
                count += 1

        listening = asyncio.create_task(listen())
        await asyncio.sleep(0.5)
        listening.cancel()
        await asyncio.wait([listening])
        return count

    assert 2 <= idle.run(count_messages()) <= 30
