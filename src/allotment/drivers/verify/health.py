"""Check of the health service."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

from allotment.drivers.verify.check import DriverCheck
from allotment.drivers.verify.driver_session import DriverSession
from allotment.drivers.verify.verdict import CheckFailed, CheckSkipped
from allotment.kubelet_plugin.encoding import HEALTH
from allotment.kubelet_plugin.messages import PluginCallError

_DEFAULT_TIMEOUT = 30
_MAX_MESSAGE = 1024
#: Only rounding makes times differ: both processes have the same clock.
_AHEAD_SECONDS = 5


async def _health(session: DriverSession) -> str:
    stream = session.plugin().health()
    if stream is None:
        raise CheckSkipped(f"the driver does not list {HEALTH}")
    try:
        devices = await asyncio.wait_for(anext(stream), session.timeouts.publish)
    except TimeoutError:
        raise CheckFailed(
            f"no message within {session.timeouts.publish:g} s",
            "send the full list immediately, after each change, and again before it is 30 s old",
        ) from None
    except StopAsyncIteration:
        raise CheckFailed(
            "the stream ended immediately", f"serve NodeWatchResources, or do not list {HEALTH}"
        ) from None
    except PluginCallError as error:
        raise CheckFailed(str(error), "keep the stream open until the kubelet closes it") from None
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
    published = {
        (slice_.spec.pool.name, device.name)
        for slice_ in await session.slices()
        for device in slice_.spec.devices or ()
    }
    reported = {(health.pool, health.device) for health in devices}
    if unknown := sorted(reported - published):
        raise CheckFailed(
            f"reported health of {'/'.join(unknown[0])}, which is not in a ResourceSlice",
            "use the pool and device names from the ResourceSlice",
        )
    if missing := sorted(published - reported):
        raise CheckFailed(
            "no health reported for "
            f"{'/'.join(missing[0])}{f' and {len(missing) - 1} others' if len(missing) > 1 else ''}",
            "send all devices in every message: missing ones become Unknown after 30 s",
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
    counts = {state: sum(health.health == state for health in devices) for state in ("Healthy", "Unhealthy", "Unknown")}
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "no devices"


CHECKS = (
    DriverCheck(
        "health", "the first message lists all published devices and no others, with the current time",
        "KEP-4680", _health,
    ),
)  # fmt: skip
