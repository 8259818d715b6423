"""NVIDIA's driver in a process that is killed, at a chosen step or from outside.

The hardware is a folder, as are the checkpoint and the CDI specs, so all of it keeps its state.
"""

from __future__ import annotations

import asyncio
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from allotment.cdi.spec import Spec
from allotment.cdi.store import FolderStore
from allotment.cluster.clock import Clock
from allotment.cluster.resources import CLAIMS
from allotment.drivers.host import DriverHost, FileStorage
from allotment.drivers.nvidia.driver import NvidiaDriver
from allotment.drivers.nvidia.simulated.fault_injection import FaultInjector, HardwareStep
from allotment.drivers.nvidia.simulated.hardware import SimulatedHardware
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.fleet.hardware import hardware
from allotment.fleet.modes import DynamicMig
from allotment.fleet.nvidia import gpus_of
from tests.storm.driver_faults import FAULTS
from tests.unit.cluster.memory import MemoryClient

NODE = "n1"
GPUS = 2
LATENCY = 0.0005


class KillSwitch(FaultInjector):
    """Counts steps of the hardware and of the disk, and kills the process at one of them; 0: never."""

    def __init__(self, die_at: int) -> None:
        super().__init__()
        self._left = die_at

    def step(self) -> None:
        """Kill the process here if this is the chosen step."""
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def reach(self, step: HardwareStep) -> None:
        self.step()


class KillingStorage(FileStorage):
    """A checkpoint before and after whose writing the process may be killed."""

    def __init__(self, path: Path, fate: KillSwitch) -> None:
        super().__init__(path)
        self._fate = fate

    async def save(self, data: bytes) -> None:
        self._fate.step()
        await super().save(data)
        self._fate.step()


class KillingFolder(FolderStore):
    """CDI specs before and after whose writing the process may be killed."""

    def __init__(self, path: Path, fate: KillSwitch) -> None:
        super().__init__(path)
        self._fate = fate

    def write(self, name: str, spec: Spec) -> None:
        self._fate.step()
        super().write(name, spec)
        self._fate.step()

    def remove(self, name: str) -> None:
        self._fate.step()
        super().remove(name)
        self._fate.step()


def machine(folder: Path | None, faults: FaultInjector | None = None) -> SimulatedHardware:
    """Two H100 whose MIG devices are created on demand; the hardware's state is in the folder."""
    gpus = gpus_of(hardware("h100-80gb", GPUS), NODE, DynamicMig())
    return SimulatedHardware(gpus, folder, name=NODE, faults=faults, latency=LATENCY)


def serve(pipe: Connection, folder: Path, die_at: int, fault: str = "") -> None:
    """Run the driver: report when it has recovered, then answer calls until killed. ``fault``: one to plant."""
    if fault:
        FAULTS[fault].plant()
    asyncio.run(_serve(pipe, folder, KillSwitch(die_at)))


async def _serve(pipe: Connection, folder: Path, fate: KillSwitch) -> None:
    client = MemoryClient()
    driver = NvidiaDriver(machine(folder / "hardware", fate), DynamicMig())
    storage = KillingStorage(folder / "checkpoint.json", fate)
    host = DriverHost(NODE, "boot", storage, KillingFolder(folder / "cdi", fate))
    plugin = NodeDriver(driver, host, client, Clock(), random=Random(1))
    await plugin.recover()
    pipe.send("ready")
    while True:
        verb, refs, trees = await asyncio.to_thread(pipe.recv)
        for tree in trees:
            client.put(CLAIMS, tree)
        answer: Any = await (plugin.prepare(refs) if verb == "prepare" else plugin.unprepare(refs))
        pipe.send(answer)
