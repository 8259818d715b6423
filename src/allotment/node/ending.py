"""Container termination: preStop hook, SIGTERM, and SIGKILL after the grace period."""

from __future__ import annotations

from typing import Final

from allotment.node.containers import Container
from allotment.node.events import PodEvents
from allotment.node.probe_actions import attempt

#: Minimum grace period of a container in seconds.
_LEAST_SECONDS: Final = 2.0


async def end(container: Container, pod_events: PodEvents, pod_ip: str, *, grace: float, why: str = "") -> None:
    """Terminate the current run of a container within ``grace`` seconds of its clock; returns when it has ended.

    The ``preStop`` hook counts toward that time. A container that is already terminating gets no second hook or event.
    """
    now = container.now
    if now is None:
        return
    already_ending, container.ends = container.ends is now, now
    if not already_ending:
        pod_events.container(container.spec, "Normal", "Killing", why or f"Stopping container {container.name}")
    clock = container.clock
    hook = (container.spec.get("lifecycle") or {}).get("preStop")
    if hook and grace > 0 and not already_ending:
        start = clock.seconds()
        outcome = await attempt(hook, container, pod_ip, seconds=grace, clock=clock)
        if not outcome.ok:
            pod_events.container(container.spec, "Warning", "FailedPreStopHook", "PreStopHook failed")
        grace -= clock.seconds() - start
    if container.now is now:
        await now.stop(max(grace, _LEAST_SECONDS))
