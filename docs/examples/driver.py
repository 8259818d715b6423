"""A complete driver: the serial ports of a node, each for one claim at a time, at the speed that the claim requests."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from allotment import drivers


class PortConfig(msgspec.Struct):  # the parameters of claims; decoded strictly, with errors for each field
    speed: int = 9600


class SerialPorts:
    name = "serial.example.com"
    configs = {("serial.example.com/v1", "PortConfig"): PortConfig}
    folder = Path("/dev")

    async def discover(self) -> list[drivers.DevicePool]:
        ports = sorted(self.folder.glob("ttyUSB*"))
        return [drivers.DevicePool([[drivers.device(port.name.lower()) for port in ports]])]

    def config_applies(self, device: str, config: PortConfig) -> bool:
        return True  # all devices are of one kind

    def validate(self, config: PortConfig) -> None:
        if config.speed not in (9600, 19200, 38400, 57600, 115200):
            raise drivers.ClaimError(f"speed: expected 9600, 19200, 38400, 57600 or 115200, found {config.speed}")

    def plan(self, claim: drivers.AllocatedClaim) -> drivers.Tree:  # saved to disk before prepare; input to unprepare
        return {device.device: (device.config or PortConfig()).speed for device in claim.devices}

    async def prepare(self, claim: drivers.AllocatedClaim, plan: drivers.Tree) -> drivers.PreparedClaim:
        await asyncio.gather(*(self._set(device, speed) for device, speed in plan.items()))
        nodes = {device.key: drivers.DeviceNode(str(self._port(device.device))) for device in claim.devices}
        edits = {key: drivers.ContainerEdits(device_nodes=(node,)) for key, node in nodes.items()}
        return drivers.PreparedClaim({key: drivers.ReadyDevice(value) for key, value in edits.items()})

    async def unprepare(self, plan: drivers.Tree, others: object = ()) -> None:
        await asyncio.gather(*(self._set(device, 9600) for device in plan if self._port(device).exists()))

    async def watch(self) -> AsyncIterator[drivers.DeviceEvent]:
        while True:
            await asyncio.sleep(5)
            yield drivers.DevicesChanged()

    def _port(self, device: str) -> Path:
        return self.folder / device.replace("usb", "USB")

    async def _set(self, device: str, speed: int) -> None:
        await asyncio.to_thread(subprocess.check_call, ["stty", "-F", str(self._port(device)), str(speed)])


if __name__ == "__main__":
    drivers.run(SerialPorts())
