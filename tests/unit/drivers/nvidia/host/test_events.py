"""What happens to GPUs, as it is told."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from allotment.drivers.nvidia.hardware import Event, GpusChanged, Hardware, Unmonitored, Xid
from tests.nvml.library import A100, T4
from tests.nvml.machine import Machine
from tests.unit.drivers.nvidia.host.hosting import on


async def until_watched(host: Machine) -> None:
    """The driver listens to the first GPU now."""
    async with asyncio.timeout(30):
        while not host.nvml.registered(0):
            await asyncio.sleep(0.002)


def told(host: Machine, happen: Any, number: int, *, watched: bool = True) -> list[Event]:
    """The first events after something happened."""

    async def listen(hardware: Hardware) -> list[Event]:
        found: list[Event] = []
        await hardware.gpus()

        async def gather() -> None:
            events: Any = hardware.events()
            async with aclosing(events):
                async for event in events:
                    found.append(event)
                    if len(found) == number:
                        return

        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            group.create_task(gather())
            if watched:
                await until_watched(host)
            happen()
        return found

    return on(host, listen)


def test_critical_events_carry_their_number(host: Machine, caplog: pytest.LogCaptureFixture) -> None:
    host.gpu(A100, 7, "GPU-a")
    host.gpu(A100, 0xF, "GPU-b")
    host.gpu(T4, 0x1E, "GPU-c")

    def happen() -> None:
        host.nvml.xid(1, 79)
        host.nvml.xid(0, 13)

    assert told(host, happen, 3) == [Unmonitored("0000:1e:00.0"), Xid("0000:0f:00.0", 79), Xid("0000:07:00.0", 13)]
    assert "no critical events of GPU 0000:1e:00.0" in caplog.text


def test_a_lost_gpu_is_told_once(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a")
    host.gpu(A100, 0xF, "GPU-b")

    def happen() -> None:
        host.nvml.lose(1)
        host.nvml.xid(0, 31)

    assert told(host, happen, 2) in (
        [Xid("0000:07:00.0", 31), Xid("0000:0f:00.0", 0)],
        [Xid("0000:0f:00.0", 0), Xid("0000:07:00.0", 31)],
    )


def test_gpus_that_come_and_go_are_told_and_found_after(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a")

    async def plug(hardware: Hardware) -> None:
        assert len(await hardware.gpus()) == 1
        events: Any = hardware.events()
        async with asyncio.timeout(30), aclosing(events):
            waiting = asyncio.ensure_future(anext(events))
            await until_watched(host)
            host.gpu(A100, 0xF, "GPU-b")
            assert await waiting == GpusChanged(recovered=("0000:0f:00.0",))
            assert len(await hardware.gpus()) == 2
            host.bind("0000:07:00.0", "")
            assert await anext(events) == GpusChanged()

    on(host, plug)


def test_a_driver_that_is_loaded_later_is_noticed(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a")
    host.nvml.absent()
    assert told(host, lambda: host.nvml.absent(False), 1, watched=False) == [GpusChanged()]
