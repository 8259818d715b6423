"""The base of the example drivers: devices without hardware, visible in containers as variables.

Preparing changes nothing, so the plan only lists the devices. Health is set by a user, to try taints, evictions and the
kubelet's view of health.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, Literal

from allotment.cdi.spec import ContainerEdits
from allotment.drivers.driver import (
    AllocatedClaim,
    AllocatedDevice,
    DeviceEvent,
    DevicePool,
    HealthUpdate,
    PreparedClaim,
    ReadyDevice,
    Tree,
)
from allotment.model.resource import Device, DeviceTaint

Effect = Literal["None", "NoSchedule", "NoExecute"]
BROKEN: Final = "example.com/broken"
_EFFECTS: Final[Mapping[str, Effect]] = {"None": "None", "NoSchedule": "NoSchedule", "NoExecute": "NoExecute"}


class ExampleDriver:
    """A driver with a fixed pool of devices. ``profile`` is the prefix of its variables."""

    def __init__(self, name: str, profile: str, node: str, pool: DevicePool) -> None:
        self.name = name
        self._profile = profile
        self._node = node
        self._pool = pool
        self._devices: Mapping[str, Device] = {device.name: device for group in pool.groups for device in group}
        self._events: asyncio.Queue[DeviceEvent] = asyncio.Queue()
        self._faults: Mapping[str, Effect] = {}

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        return {}

    def variables(self, device: AllocatedDevice) -> Sequence[str]:
        """Return a device's variables for containers, in addition to those for its claim."""
        return ()

    def status_data(self, device: Device) -> Tree | None:
        """Return a device's data for the claim's status, or None."""
        return None

    def set_faults(self, faults: Mapping[str, Effect]) -> None:
        """Set the unhealthy devices of this driver, with the effect of their taint; all others are healthy."""
        for name in self._devices:
            effect = faults.get(name)
            if effect != self._faults.get(name):
                taint = DeviceTaint(key=BROKEN, effect=effect or "")
                unhealthy = HealthUpdate(name, "Unhealthy", "broken on purpose", (taint,))
                self._events.put_nowait(unhealthy if effect is not None else HealthUpdate(name, "Healthy"))
        self._faults = {name: effect for name, effect in faults.items() if name in self._devices}

    @property
    def devices(self) -> frozenset[str]:
        """The names of all devices."""
        return frozenset(self._devices)

    # --- the Driver interface ---------------------------------------------------------------------------------------

    async def discover(self) -> Sequence[DevicePool]:
        return (self._pool,)

    def config_applies(self, device: str, config: Any) -> bool:
        """Always True: all devices are of one kind."""
        return True

    def validate(self, config: Any) -> None:
        """Accept all parameters of the right type."""

    def plan(self, claim: AllocatedClaim) -> Tree:
        """Return the names of the devices."""
        return {"devices": [device.device for device in claim.devices]}

    async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
        """Return the variables of the devices."""
        common = (f"KUBERNETES_NODE_NAME={self._node}", f"DRA_RESOURCE_DRIVER_NAME={self.name}")
        devices = {device.key: self._ready(claim, device) for device in claim.devices}
        return PreparedClaim(devices, ContainerEdits(env=common))

    def _ready(self, claim: AllocatedClaim, device: AllocatedDevice) -> ReadyDevice:
        name = re.sub(r"[^A-Z0-9]+", "_", device.device.upper())
        env = (
            f"{self._profile}_DEVICE_{name}_RESOURCE_CLAIM={claim.uid}",
            f"DRA_ADMIN_ACCESS={str(device.admin_access).lower()}",
            *self.variables(device),
        )
        published = self._devices.get(device.device)
        return ReadyDevice(ContainerEdits(env=env), self.status_data(published) if published is not None else None)

    async def unprepare(self, plan: Tree, others: Sequence[Tree] = ()) -> None:
        """Do nothing: preparing changes nothing."""

    async def watch(self) -> AsyncIterator[DeviceEvent]:
        """Yield the changes that :meth:`set_faults` made."""
        while True:
            yield await self._events.get()


def parse_faults(text: str, devices: frozenset[str]) -> dict[str, Effect]:
    """Parse the faults in an annotation. Raises ValueError.

    >>> parse_faults("gpu-0=NoExecute", frozenset({"gpu-0"}))
    {'gpu-0': 'NoExecute'}
    """
    faults: dict[str, Effect] = {}
    for entry in filter(None, text.split(",")):
        device, _, effect = entry.strip().partition("=")
        if device not in devices:
            raise ValueError(f"{entry!r}: device {device!r} not found")
        if effect not in _EFFECTS:
            raise ValueError(f"{entry!r}: expected an effect of {', '.join(_EFFECTS)}, found {effect!r}")
        faults[device] = _EFFECTS[effect]
    return faults
