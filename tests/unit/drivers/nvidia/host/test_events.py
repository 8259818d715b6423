"""Events of GPUs on a host."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from allotment.drivers.nvidia.hardware import Event, GpusChanged, Hardware, Unmonitored, Xid
from tests.nvml.library import A100, T4
from tests.nvml.machine import Machine
from tests.unit.drivers.nvidia.host.hosting import run_on_host


async def until_watched(host: Machine) -> None:
    """Wait until the driver listens to the first GPU."""
    async with asyncio.timeout(30):
        while not host.nvml.registered(0):
            await asyncio.sleep(0.002)


def events_after(host: Machine, trigger: Any, number: int, *, watched: bool = True) -> list[Event]:
    """The first ``number`` events after ``trigger`` was called."""

    async def listen(hardware: Hardware) -> list[Event]:
        events: list[Event] = []
        await hardware.gpus()

        async def gather() -> None:
            source: Any = hardware.events()
            async with aclosing(source):
                async for event in source:
                    events.append(event)
                    if len(events) == number:
                        return

        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            group.create_task(gather())
            if watched:
                await until_watched(host)
            trigger()
        return events

    return run_on_host(host, listen)


def test_critical_events_have_their_number(host: Machine, caplog: pytest.LogCaptureFixture) -> None:
    host.gpu(A100, 7, "GPU-a")
    host.gpu(A100, 0xF, "GPU-b")
    host.gpu(T4, 0x1E, "GPU-c")

    def trigger() -> None:
        host.nvml.xid(1, 79)
        host.nvml.xid(0, 13)

    assert events_after(host, trigger, 3) == [
        Unmonitored("0000:1e:00.0"),
        Xid("0000:0f:00.0", 79),
        Xid("0000:07:00.0", 13),
    ]
    assert "critical events of GPU 0000:1e:00.0 are not watched" in caplog.text


def test_a_lost_gpu_is_reported_once(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a")
    host.gpu(A100, 0xF, "GPU-b")

    def trigger() -> None:
        host.nvml.fall_off_bus(1)
        host.nvml.xid(0, 31)

    assert events_after(host, trigger, 2) in (
        [Xid("0000:07:00.0", 31), Xid("0000:0f:00.0", 0)],
        [Xid("0000:0f:00.0", 0), Xid("0000:07:00.0", 31)],
    )


def test_added_and_removed_gpus_are_reported_and_discovered(host: Machine) -> None:
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

    run_on_host(host, plug)


def test_a_driver_that_is_loaded_later_is_noticed(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a")
    host.nvml.absent()
    assert events_after(host, lambda: host.nvml.absent(False), 1, watched=False) == [GpusChanged()]
