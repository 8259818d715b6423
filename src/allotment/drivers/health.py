"""The health of a driver's devices, as taints for schedulers and as a stream for the kubelet.

A published device without events is healthy while the driver watches its devices. If its watch ends, the health of all
devices is unknown.
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

#: Age at which a kubelet considers a device's health unknown (KEP-4680; the default is 30 s).
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
        self._updates: dict[DeviceKey, HealthUpdate] = {}
        self._watching = True
        self._updated: int = 0
        self._changed = asyncio.Event()

    def set_devices(self, pools: Sequence[DevicePool]) -> None:
        """Set the published devices; updates of other devices are removed."""
        devices = tuple((pool.name or self._node, d.name) for pool in pools for group in pool.groups for d in group)
        if devices != self._devices:
            self._devices = devices
            published = set(devices)
            self._updates = {key: update for key, update in self._updates.items() if key in published}
            self._notify()

    def update(self, update: HealthUpdate) -> bool:
        """Store an update; return whether the device's taints changed."""
        key = (update.pool or self._node, update.device)
        previous = self._updates.get(key)
        if previous == update:
            return False
        self._updates[key] = update
        self._notify()
        return update.taints != (previous.taints if previous is not None else ())

    def set_watching(self, watching: bool) -> None:
        """Set whether the driver watches its devices."""
        if watching != self._watching:
            self._watching = watching
            self._notify()

    def with_taints(self, pools: Sequence[DevicePool]) -> tuple[DevicePool, ...]:
        """Return the pools with the taints from health updates added to those of the driver."""
        if not any(update.taints for update in self._updates.values()):
            return tuple(pools)
        return tuple(
            pool._replace(
                groups=tuple(
                    tuple(self._with_taints(pool.name or self._node, d) for d in group) for group in pool.groups
                )
            )
            for pool in pools
        )

    def _with_taints(self, pool: str, device: Device) -> Device:
        update = self._updates.get((pool, device.name))
        if update is None or not update.taints:
            return device
        replaced = {(taint.key, taint.effect) for taint in update.taints}
        kept = tuple(taint for taint in device.taints if (taint.key, taint.effect) not in replaced)
        return replace(device, taints=kept + update.taints)

    def snapshot(self) -> tuple[DeviceHealth, ...]:
        """Return the health of all devices."""
        seconds = int(self._clock.moment().timestamp())
        default = HealthUpdate("", "Healthy") if self._watching else HealthUpdate("", "Unknown", _UNWATCHED)
        updates = ((key, self._updates.get(key, default)) for key in self._devices)
        return tuple(
            DeviceHealth(*key, update.health, seconds, TIMEOUT_SECONDS, update.message[:_MAX_MESSAGE])
            for key, update in updates
        )

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def stream(self) -> AsyncIterator[tuple[DeviceHealth, ...]]:
        """Yield the health of all devices: now, after each change, and before it expires in the kubelet."""
        while True:
            changed = self._changed
            yield self.snapshot()
            # The kubelet's timeout is in real time, independent of the lab's clock.
            timer = asyncio.get_running_loop().call_later(_REPEAT_SECONDS, self._notify)
            try:
                await changed.wait()
            finally:
                timer.cancel()
