"""Runs a test with the hardware of a host, and closes it afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from allotment.drivers.nvidia.hardware import Hardware
from allotment.drivers.nvidia.host import HostHardware
from tests.nvml.machine import Machine

T = TypeVar("T")


def run_on_host(host: Machine, use: Callable[[Hardware], Awaitable[T]], *, mps_timeout: float = 30.0) -> T:
    """Call ``use`` with newly opened hardware, and return its result."""

    async def opened() -> T:
        hardware = HostHardware(host.roots, interval=0.01, mps_timeout=mps_timeout)
        try:
            return await use(hardware)
        finally:
            await hardware.close()

    return asyncio.run(opened())
