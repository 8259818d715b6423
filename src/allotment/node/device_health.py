"""Device health as reported by drivers, and its form in a pod's status (KEP-4680).

A driver that does not report health has no devices here and no entries in pod statuses. The devices of a driver that
stops reporting become Unknown.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from allotment.cluster.clock import Timer
from allotment.kubelet_plugin.messages import (
    DeviceHealth,
    Health,
    HealthNotSupported,
    KubeletPlugin,
    PluginCallError,
    PreparedDevice,
)
from allotment.model.trees import Tree
from allotment.node.claims import NodeClaims
from allotment.node.pod_claims import ClaimsError, claim_names

#: Seconds without a report after which health is Unknown, unless the driver sets another timeout.
_DEFAULT_TIMEOUT: Final = 30.0
#: Seconds before a stream that ended is opened again.
_AGAIN_SECONDS: Final = 5.0
_LONGEST_MESSAGE: Final = 1024

#: Callback: node, driver, and the devices (pool and name) whose health changed.
Changed = Callable[[str, str, Collection[tuple[str, str]]], None]

log = logging.getLogger(__name__)


class _HealthReport(NamedTuple):
    health: Health
    message: str
    until: float


class DeviceHealths:
    """The latest health reports. Times are the machine's, not the lab clock's: drivers report Unix seconds."""

    def __init__(self, changed: Changed) -> None:
        self._changed = changed
        self._reports: dict[tuple[str, str], dict[tuple[str, str], _HealthReport]] = {}
        self._timers: dict[tuple[str, str], Timer] = {}

    def of(self, node: str, driver: str, pool: str, device: str) -> tuple[Health, str] | None:
        """A device's health and message; None if its driver does not report health."""
        devices = self._reports.get((node, driver))
        if devices is None:
            return None
        return _health_at(devices.get((pool, device)), self._now())

    async def follow(self, node: str, plugin: KubeletPlugin) -> None:
        """Read a driver's health stream until cancelled; returns immediately if the driver does not report health."""
        key = (node, plugin.name)
        try:
            while (stream := plugin.health()) is not None:
                try:
                    async for devices in stream:
                        self._received(key, devices)
                except HealthNotSupported as error:
                    # The driver registers again when it reports health.
                    log.debug("node %s: driver %s: no health reports: %s", node, plugin.name, error)
                    return
                except PluginCallError as error:
                    log.info("node %s: driver %s: health stream ended: %s", node, plugin.name, error)
                except Exception:
                    log.exception("node %s: driver %s: health stream failed", node, plugin.name)
                await asyncio.sleep(_AGAIN_SECONDS)
        finally:
            self._forget(key)

    def close(self) -> None:
        """Cancel all timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _received(self, key: tuple[str, str], devices: Sequence[DeviceHealth]) -> None:
        now = self._now()
        before = self._reports.get(key, {})
        # A driver with several health sources sends a report for each: devices that are absent keep their health.
        after = {name: report for name, report in before.items() if now < report.until} | {
            (device.pool, device.device): _HealthReport(device.health, _short(device.message), now + _validity(device))
            for device in devices
        }
        self._reports[key] = after
        changed = {
            name
            for name in before.keys() | after.keys()
            if _health_at(before.get(name), now) != _health_at(after.get(name), now)
        }
        self._wait(key)
        if changed:
            self._changed(*key, changed)

    def _wait(self, key: tuple[str, str]) -> None:
        """Schedule a check for when the first report expires."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        now = self._now()
        ends = [report.until for report in self._reports.get(key, {}).values() if report.until > now]
        if ends:
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(min(ends) - now + 0.01, self._silent, key)

    def _silent(self, key: tuple[str, str]) -> None:
        now = self._now()
        late = {name for name, report in self._reports.get(key, {}).items() if report.until <= now}
        self._wait(key)
        if late:
            self._changed(*key, late)

    def _forget(self, key: tuple[str, str]) -> None:
        devices = self._reports.pop(key, {})
        self._wait(key)
        if devices:
            self._changed(*key, set(devices))

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def allocated(node: str, pod: Tree, spec: Tree, claims: NodeClaims, healths: DeviceHealths) -> list[Tree]:
    """A container's ``allocatedResourcesStatus``: an entry for each claim or request that it uses."""
    used: Iterable[Tree] = (spec.get("resources") or {}).get("claims") or ()
    if not used:
        return []
    try:
        names: Mapping[str, str] = {entry: name for entry, name, _ in claim_names(pod)}
    except ClaimsError:
        return []
    found: list[Tree] = []
    for claim in used:
        request = claim.get("request") or ""
        by_driver = claims.devices(pod["metadata"].get("namespace", ""), names.get(claim["name"], ""), request)
        resources: dict[str, Tree] = {}
        for driver, devices in by_driver.items():
            for device in devices:
                if (health := healths.of(node, driver, device.pool, device.device)) is not None:
                    entry = _resource(driver, device, *health)
                    resources.setdefault(entry["resourceID"], entry)
        if resources:
            name = f"claim:{claim['name']}" + (f"/{request}" if request else "")
            found.append({"name": name, "resources": list(resources.values())})
    return found


def _resource(driver: str, device: PreparedDevice, health: Health, message: str) -> Tree:
    identity = device.cdi_ids[0] if device.cdi_ids else f"{driver}/{device.pool}/{device.device}"
    entry = {"resourceID": identity, "health": health}
    return {**entry, "message": message} if message else entry


def _health_at(report: _HealthReport | None, now: float) -> tuple[Health, str]:
    return ("Unknown", "") if report is None or report.until <= now else (report.health, report.message)


def _validity(device: DeviceHealth) -> float:
    """Seconds for which a health report is valid; its age counts, because a driver may repeat an older one."""
    age = max(time.time() - device.updated, 0.0) if device.updated > 0 else 0.0
    return (device.timeout if device.timeout > 0 else _DEFAULT_TIMEOUT) - age


def _short(message: str) -> str:
    return message if len(message) <= _LONGEST_MESSAGE else message[: _LONGEST_MESSAGE - 3] + "..."
