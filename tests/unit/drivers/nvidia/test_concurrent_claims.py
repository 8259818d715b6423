"""Claims that are prepared while others are unprepared keep their settings."""

from __future__ import annotations

import asyncio

from allotment.drivers.nvidia.config import VERSION
from allotment.drivers.nvidia.driver import NvidiaDriver
from allotment.drivers.nvidia.simulated.hardware import SimulatedHardware
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.fleet.hardware import hardware
from allotment.fleet.modes import ConsumableShares
from allotment.fleet.nvidia import DRIVER, gpus_of
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import MemoryClient
from tests.unit.drivers.fake_driver import memory_host, opaque, put_claim

LONG = {
    "apiVersion": VERSION,
    "kind": "GpuConfig",
    "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}},
}


class SlowHardware(SimulatedHardware):
    """Hardware that resets a time slice only after ``gate`` is set."""

    gate: asyncio.Event

    async def set_time_slice(self, pci: str, interval: int) -> None:
        if interval == 0:
            await self.gate.wait()
        await super().set_time_slice(pci, interval)


def test_a_share_prepared_while_the_last_one_is_unprepared_keeps_its_time_slice() -> None:
    async def main() -> None:
        gpus = gpus_of(hardware("dgx-a100-40gb", 1), "n1")
        simulated = SlowHardware(gpus, name="n1")
        simulated.gate = asyncio.Event()
        client = MemoryClient()
        plugin = NodeDriver(
            NvidiaDriver(simulated, ConsumableShares(2)), memory_host(), client, IdleClock(), status=False
        )
        config = [opaque(LONG, driver=DRIVER)]
        first, second = (
            put_claim(client, name, "gpu-0", driver=DRIVER, config=config, shareID=f"share-{name}")
            for name in ("first", "second")
        )
        assert (await plugin.prepare([first]))[first.uid].error == ""
        unpreparing = asyncio.create_task(plugin.unprepare([first]))
        await asyncio.sleep(0.01)
        preparing = asyncio.create_task(plugin.prepare([second]))
        await asyncio.sleep(0.01)
        simulated.gate.set()
        assert (await preparing)[second.uid].error == ""
        assert await unpreparing == {first.uid: ""}
        (card,) = simulated.snapshot().cards.values()
        assert card.interval == 3
        assert await plugin.unprepare([second]) == {second.uid: ""}
        assert simulated.snapshot().cards == {gpus[0].pci: type(card)()}

    idle.run(main())
