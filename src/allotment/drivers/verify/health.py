"""The health service, of drivers that have it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

from allotment.drivers.verify.check import DriverCheck
from allotment.drivers.verify.driver_session import DriverSession
from allotment.drivers.verify.verdict import CheckFailed, CheckSkipped
from allotment.kubelet_plugin.encoding import HEALTH
from allotment.kubelet_plugin.messages import PluginCallError

_USUAL_TIMEOUT = 30
_LONGEST_MESSAGE = 1024
#: Clocks of one machine do not differ; what is rounded does.
_AHEAD_SECONDS = 5


async def _health(session: DriverSession) -> str:
    stream = session.plugin().health()
    if stream is None:
        raise CheckSkipped(f"the driver does not list {HEALTH}")
    try:
        devices = await asyncio.wait_for(anext(stream), session.patience.publish)
    except TimeoutError:
        raise CheckFailed(
            f"no message within {session.patience.publish:g} s",
            "send the full list at once, then whenever it changes, and again before it is 30 s old",
        ) from None
    except StopAsyncIteration:
        raise CheckFailed("the stream ended at once", f"serve NodeWatchResources, or do not list {HEALTH}") from None
    except PluginCallError as error:
        raise CheckFailed(str(error), "keep the stream open for as long as the kubelet listens") from None
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
    published = {
        (one.spec.pool.name, device.name) for one in await session.slices() for device in one.spec.devices or ()
    }
    told = {(each.pool, each.device) for each in devices}
    if stray := sorted(told - published):
        raise CheckFailed(
            f"health of {'/'.join(stray[0])}, which no slice publishes", "use the pool and name of the ResourceSlice"
        )
    if missing := sorted(published - told):
        raise CheckFailed(
            f"nothing of {'/'.join(missing[0])}{f' and {len(missing) - 1} others' if len(missing) > 1 else ''}",
            "send all devices in every message: what is missing becomes Unknown after 30 s",
        )
    now = time.time()
    for each in devices:
        age, timeout = now - each.updated, each.timeout or _USUAL_TIMEOUT
        if age > timeout or age < -_AHEAD_SECONDS:
            raise CheckFailed(
                f"{each.device} was last updated {age:.0f} s ago, and {timeout} s make it Unknown",
                "set last_updated_time to the time of the message, in seconds since 1970",
            )
        if len(each.message) > _LONGEST_MESSAGE:
            raise CheckFailed(f"{each.device}: a message of {len(each.message)} characters", "keep messages under 1024")
    counts = {state: sum(each.health == state for each in devices) for state in ("Healthy", "Unhealthy", "Unknown")}
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "no devices"


CHECKS = (
    DriverCheck("health", "the first message tells all published devices, and no others, with a time that is now",
          "KEP-4680", _health),
)  # fmt: skip
