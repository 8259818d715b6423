"""Check of the health service, in each version that the driver lists."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Collection, Sequence

from allotment.drivers.verify.check import DriverCheck
from allotment.drivers.verify.driver_session import DriverSession
from allotment.drivers.verify.verdict import CheckFailed, CheckSkipped
from allotment.kubelet_plugin.encoding import HEALTH_VERSIONS, HealthVersion
from allotment.kubelet_plugin.messages import DeviceHealth, HealthNotSupported, PluginCallError, health_services

_DEFAULT_TIMEOUT = 30
_MAX_MESSAGE = 1024
#: Only rounding makes times differ: both processes have the same clock.
_AHEAD_SECONDS = 5
_KEEP_OPEN = "keep the stream open until the kubelet closes it"


async def _health(session: DriverSession) -> str:
    listed = [version for version in HEALTH_VERSIONS if version.service in session.info.versions]
    if not listed:
        raise CheckSkipped(f"the driver lists neither {' nor '.join(version.service for version in HEALTH_VERSIONS)}")
    published = {
        (slice_.spec.pool.name, device.name)
        for slice_ in await session.slices()
        for device in slice_.spec.devices or ()
    }
    counts: dict[HealthVersion, str] = {}
    rejections: dict[HealthVersion, str] = {}
    for version in listed:
        try:
            devices = await _reported(session, version, published)
        except HealthNotSupported as error:
            rejections[version] = str(error)
        else:
            _check_messages(devices, published)
            counts[version] = _count(devices)
    if not counts:
        # Upstream's library lists the service for all drivers; those without health reports answer Unimplemented.
        raise CheckSkipped(f"the driver does not report health: {rejections[listed[0]]}")
    if rejections:
        version, text = next(iter(rejections.items()))
        raise CheckFailed(
            f"{version.service}: {text}",
            f"serve every listed service: kubelets that choose {version.service} get no health",
        )
    text = f"{counts[listed[0]]} ({', '.join(version.service for version in listed)})"
    called = health_services(session.features)
    if not any(version.service in called for version in listed):
        text += f"; kubelets of Kubernetes {session.features.kube} call only {', '.join(called)}"
    return text


async def _reported(
    session: DriverSession, version: HealthVersion, published: Collection[tuple[str, str]]
) -> list[DeviceHealth]:
    """Return the devices of the stream's messages until all published ones are reported.

    A driver with several health sources sends a message for each. Returns what was reported until the timeout. Raises
    CheckFailed if there is no message, HealthNotSupported.
    """
    stream = session.plugin().watch_health(version)
    messages: list[Sequence[DeviceHealth]] = []
    try:
        async with asyncio.timeout(session.timeouts.publish):
            async for message in stream:
                messages.append(message)
                if {(health.pool, health.device) for devices in messages for health in devices}.issuperset(published):
                    break
    except TimeoutError:
        if not messages:
            raise CheckFailed(
                f"{version.service}: no message within {session.timeouts.publish:g} s",
                "send the full list immediately, after each change, and again before it is 30 s old",
            ) from None
    except HealthNotSupported:
        raise
    except PluginCallError as error:
        raise CheckFailed(f"{version.service}: {error}", _KEEP_OPEN) from None
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
    if not messages:
        raise CheckFailed(
            f"{version.service}: the stream ended immediately",
            f"{_KEEP_OPEN}; if the driver does not report health, answer Unimplemented, or do not list the service",
        )
    return [health for devices in messages for health in devices]


def _check_messages(devices: Sequence[DeviceHealth], published: Collection[tuple[str, str]]) -> None:
    """Raise CheckFailed unless all published devices (pool and name), and no others, are reported, with the time."""
    reported = {(health.pool, health.device) for health in devices}
    if unknown := sorted(reported.difference(published)):
        raise CheckFailed(
            f"reported health of {'/'.join(unknown[0])}, which is not in a ResourceSlice",
            "use the pool and device names from the ResourceSlice",
        )
    if missing := sorted(set(published) - reported):
        raise CheckFailed(
            "no health reported for "
            f"{'/'.join(missing[0])}{f' and {len(missing) - 1} others' if len(missing) > 1 else ''}",
            "send all devices immediately, and again before their health is 30 s old: others are Unknown",
        )
    now = time.time()
    for health in devices:
        age, timeout = now - health.updated, health.timeout or _DEFAULT_TIMEOUT
        if age > timeout or age < -_AHEAD_SECONDS:
            raise CheckFailed(
                f"the health of {health.device} was last updated {age:.0f} s ago; it becomes Unknown after {timeout} s",
                "set last_updated_time to the time of the message, in seconds since 1970",
            )
        if len(health.message) > _MAX_MESSAGE:
            raise CheckFailed(
                f"{health.device}: a message of {len(health.message)} characters",
                "keep messages shorter than 1024 characters",
            )


def _count(devices: Sequence[DeviceHealth]) -> str:
    counts = {state: sum(health.health == state for health in devices) for state in ("Healthy", "Unhealthy", "Unknown")}
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "no devices"


CHECKS = (
    DriverCheck(
        "health", "all published devices and no others are reported immediately, with the current time",
        "KEP-4680", _health,
    ),
)  # fmt: skip
