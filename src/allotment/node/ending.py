"""How a container is ended: its hook, SIGTERM, and SIGKILL when its time is over."""

from __future__ import annotations

from typing import Final

from allotment.node.containers import Container
from allotment.node.events import PodEvents
from allotment.node.probe_actions import attempt

#: What every container is given, however little time its pod has left.
_LEAST_SECONDS: Final = 2.0


async def end(container: Container, telling: PodEvents, pod_ip: str, *, grace: float, why: str = "") -> None:
    """End what a container runs now, within ``grace`` seconds of its clock; returns when it ended.

    Its ``preStop`` hook takes of that time. Nothing runs: nothing to do. Who is being ended already is only hurried.
    """
    now = container.now
    if now is None:
        return
    already_ending, container.ends = container.ends is now, now
    if not already_ending:
        telling.container(container.spec, "Normal", "Killing", why or f"Stopping container {container.name}")
    clock = container.clock
    hook = (container.spec.get("lifecycle") or {}).get("preStop")
    if hook and grace > 0 and not already_ending:
        start = clock.seconds()
        outcome = await attempt(hook, container, pod_ip, seconds=grace, clock=clock)
        if not outcome.ok:
            telling.container(container.spec, "Warning", "FailedPreStopHook", "PreStopHook failed")
        grace -= clock.seconds() - start
    if container.now is now:
        await now.stop(max(grace, _LEAST_SECONDS))
