"""A host's hardware, opened and closed around what a test does with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from allotment.drivers.nvidia.hardware import Hardware
from allotment.drivers.nvidia.host import HostHardware
from tests.nvml.machine import Machine

T = TypeVar("T")


def on(host: Machine, use: Callable[[Hardware], Awaitable[T]], *, patience: float = 30.0) -> T:
    """What ``use`` gives, on a newly opened host."""

    async def opened() -> T:
        hardware = HostHardware(host.roots, interval=0.01, mps_timeout=patience)
        try:
            return await use(hardware)
        finally:
            await hardware.close()

    return asyncio.run(opened())
