"""What the example drivers have in common: devices without hardware, told to containers by variables.

With nothing to set up there is nothing to undo, so the plan only says what was given. Health is whatever somebody
reports, so that taints, evictions and the kubelet's view of health can be tried as well.
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
    """A driver whose devices are known from the start. ``profile`` is the first word of its variables."""

    def __init__(self, name: str, profile: str, node: str, offer: DevicePool) -> None:
        self.name = name
        self._profile = profile
        self._node = node
        self._offer = offer
        self._devices: Mapping[str, Device] = {device.name: device for group in offer.groups for device in group}
        self._events: asyncio.Queue[DeviceEvent] = asyncio.Queue()
        self._faults: Mapping[str, Effect] = {}

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        """None, unless a profile has some."""
        return {}

    def variables(self, granted: AllocatedDevice) -> Sequence[str]:
        """What containers are told of a device beyond its claim: nothing, unless a profile does."""
        return ()

    def status_data(self, device: Device) -> Tree | None:
        """What the claim's status says of a device: nothing, unless a profile does."""
        return None

    def set_faults(self, faults: Mapping[str, Effect]) -> None:
        """From now on these devices of this driver are broken, with a taint of that effect, and no others."""
        for name in self._devices:
            effect = faults.get(name)
            if effect != self._faults.get(name):
                taint = DeviceTaint(key=BROKEN, effect=effect or "")
                ill = HealthUpdate(name, "Unhealthy", "broken on purpose", (taint,))
                self._events.put_nowait(ill if effect is not None else HealthUpdate(name, "Healthy"))
        self._faults = {name: effect for name, effect in faults.items() if name in self._devices}

    @property
    def devices(self) -> frozenset[str]:
        """The names of all devices."""
        return frozenset(self._devices)

    # --- a driver -------------------------------------------------------------------------------------------------

    async def discover(self) -> Sequence[DevicePool]:
        """The same, always."""
        return (self._offer,)

    def config_applies(self, device: str, config: Any) -> bool:
        """There is one kind of devices."""
        return True

    def validate(self, config: Any) -> None:
        """Nothing beyond types, unless a profile has rules."""

    def plan(self, claim: AllocatedClaim) -> Tree:
        """What was given; there is nothing to do."""
        return {"devices": [granted.device for granted in claim.devices]}

    async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
        """Only variables."""
        common = (f"KUBERNETES_NODE_NAME={self._node}", f"DRA_RESOURCE_DRIVER_NAME={self.name}")
        devices = {(g.pool, g.device, g.share_id): self._ready(claim, g) for g in claim.devices}
        return PreparedClaim(devices, ContainerEdits(env=common))

    def _ready(self, claim: AllocatedClaim, granted: AllocatedDevice) -> ReadyDevice:
        name = re.sub(r"[^A-Z0-9]+", "_", granted.device.upper())
        env = (
            f"{self._profile}_DEVICE_{name}_RESOURCE_CLAIM={claim.uid}",
            f"DRA_ADMIN_ACCESS={str(granted.admin_access).lower()}",
            *self.variables(granted),
        )
        device = self._devices.get(granted.device)
        return ReadyDevice(ContainerEdits(env=env), self.status_data(device) if device is not None else None)

    async def unprepare(self, plan: Tree, others: Sequence[Tree] = ()) -> None:
        """Nothing to undo."""

    async def watch(self) -> AsyncIterator[DeviceEvent]:
        """What was reported."""
        while True:
            yield await self._events.get()


def parse_faults(text: str, devices: frozenset[str]) -> dict[str, Effect]:
    """Broken devices as a user writes them. Raises ValueError.

    >>> faults("gpu-0=NoExecute", frozenset({"gpu-0"}))
    {'gpu-0': 'NoExecute'}
    """
    found: dict[str, Effect] = {}
    for word in filter(None, text.split(",")):
        device, _, effect = word.strip().partition("=")
        if device not in devices:
            raise ValueError(f"{word!r}: there is no device {device!r}")
        if effect not in _EFFECTS:
            raise ValueError(f"{word!r}: wanted an effect of {', '.join(_EFFECTS)}, found {effect!r}")
        found[device] = _EFFECTS[effect]
    return found
