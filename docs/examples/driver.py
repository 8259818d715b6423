"""A whole driver: a node's serial ports, each for one claim at a time, at the speed that the claim asks for."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from allotment.cdi.spec import ContainerEdits, DeviceNode
from allotment.drivers.driver import (
    AllocatedClaim,
    ClaimError,
    DeviceEvent,
    DevicePool,
    DevicesChanged,
    PreparedClaim,
    ReadyDevice,
    Tree,
)
from allotment.drivers.main import run
from allotment.model.resource import Device


class PortConfig(msgspec.Struct):  # what a claim may ask for; read strictly, and errors tell the field
    speed: int = 9600


class SerialPorts:
    name = "serial.example.com"
    configs = {("serial.example.com/v1", "PortConfig"): PortConfig}
    folder = Path("/dev")

    async def discover(self) -> list[DevicePool]:
        return [DevicePool([[Device(name=port.name.lower()) for port in sorted(self.folder.glob("ttyUSB*"))]])]

    def suits(self, device: str, config: PortConfig) -> bool:
        return True  # there is one kind of devices

    def validate(self, config: PortConfig) -> None:
        if config.speed not in (9600, 19200, 38400, 57600, 115200):
            raise ClaimError(f"speed: wanted 9600, 19200, 38400, 57600 or 115200, found {config.speed}")

    def plan(self, claim: AllocatedClaim) -> Tree:  # on disk before prepare, and all that unprepare gets
        return {each.device: (each.config or PortConfig()).speed for each in claim.devices}

    async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
        await asyncio.gather(*(self._set(device, speed) for device, speed in plan.items()))
        nodes = {each.key: DeviceNode(path=str(self._port(each.device))) for each in claim.devices}
        return PreparedClaim({key: ReadyDevice(ContainerEdits(device_nodes=(node,))) for key, node in nodes.items()})

    async def unprepare(self, plan: Tree, others: object = ()) -> None:
        await asyncio.gather(*(self._set(device, 9600) for device in plan if self._port(device).exists()))

    async def watch(self) -> AsyncIterator[DeviceEvent]:
        while True:
            await asyncio.sleep(5)
            yield DevicesChanged()

    def _port(self, device: str) -> Path:
        return self.folder / device.replace("usb", "USB")

    async def _set(self, device: str, speed: int) -> None:
        await asyncio.to_thread(subprocess.check_call, ["stty", "-F", str(self._port(device)), str(speed)])


if __name__ == "__main__":
    run(SerialPorts())
