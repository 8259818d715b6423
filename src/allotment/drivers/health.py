"""What is known of the health of a driver's devices: taints for schedulers, a stream for the kubelet.

A device that is published and of which the driver said nothing is healthy as long as the driver watches; a driver whose
watch ends has nothing to tell, and its devices are unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from msgspec.structs import replace

from allotment.cluster.clock import Clock
from allotment.drivers.driver import DevicePool, HealthUpdate
from allotment.kubelet_plugin.messages import DeviceHealth
from allotment.model.resource import Device

#: A kubelet takes a device for unknown when it heard nothing of it for so long (KEP-4680; 30 s unless told).
TIMEOUT_SECONDS: Final = 60
_REPEAT_SECONDS: Final = 20.0
_MAX_MESSAGE: Final = 1024
_UNWATCHED: Final = "the driver does not watch its devices"

DeviceKey = tuple[str, str]  # pool, device


class HealthTable:
    """The health of all devices of a driver on a node."""

    def __init__(self, node: str, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self._devices: tuple[DeviceKey, ...] = ()
        self._conditions: dict[DeviceKey, HealthUpdate] = {}
        self._watching = True
        self._updated: int = 0
        self._changed = asyncio.Event()

    def set_devices(self, offers: Sequence[DevicePool]) -> None:
        """These devices are there; what was known of others is forgotten."""
        devices = tuple((offer.name or self._node, d.name) for offer in offers for group in offer.groups for d in group)
        if devices != self._devices:
            self._devices = devices
            there = set(devices)
            self._conditions = {place: each for place, each in self._conditions.items() if place in there}
            self._notify()

    def update(self, condition: HealthUpdate) -> bool:
        """News of a device; whether its taints are others than before."""
        place = (condition.pool or self._node, condition.device)
        before = self._conditions.get(place)
        if before == condition:
            return False
        self._conditions[place] = condition
        self._notify()
        return condition.taints != (before.taints if before is not None else ())

    def set_watching(self, watching: bool) -> None:
        """Whether the driver watches its devices."""
        if watching != self._watching:
            self._watching = watching
            self._notify()

    def with_taints(self, offers: Sequence[DevicePool]) -> tuple[DevicePool, ...]:
        """The offers with the taints that health asks for, beside those that the driver has put there itself."""
        if not any(condition.taints for condition in self._conditions.values()):
            return tuple(offers)
        return tuple(
            offer._replace(
                groups=tuple(
                    tuple(self._with_taints(offer.name or self._node, d) for d in group) for group in offer.groups
                )
            )
            for offer in offers
        )

    def _with_taints(self, pool: str, device: Device) -> Device:
        condition = self._conditions.get((pool, device.name))
        if condition is None or not condition.taints:
            return device
        news = {(taint.key, taint.effect) for taint in condition.taints}
        kept = tuple(taint for taint in device.taints if (taint.key, taint.effect) not in news)
        return replace(device, taints=kept + condition.taints)

    def snapshot(self) -> tuple[DeviceHealth, ...]:
        """The full list, as of now."""
        seconds = int(self._clock.moment().timestamp())
        silent = HealthUpdate("", "Healthy") if self._watching else HealthUpdate("", "Unknown", _UNWATCHED)
        told = ((place, self._conditions.get(place, silent)) for place in self._devices)
        return tuple(
            DeviceHealth(*place, each.health, seconds, TIMEOUT_SECONDS, each.message[:_MAX_MESSAGE])
            for place, each in told
        )

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def stream(self) -> AsyncIterator[tuple[DeviceHealth, ...]]:
        """The full list now, whenever it changes, and often enough not to be taken for silent."""
        while True:
            moved = self._changed
            yield self.snapshot()
            # A kubelet's patience is in the machine's time, however slow or fast a lab's clock runs.
            timer = asyncio.get_running_loop().call_later(_REPEAT_SECONDS, self._notify)
            try:
                await moved.wait()
            finally:
                timer.cancel()
