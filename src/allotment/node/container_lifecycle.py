"""The lifecycle of a pod's containers: start, restart by policy, probes, hooks and termination."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from allotment.model.trees import Tree
from allotment.node.containers import Container, ContainerExit, WaitingReason, cancel_all
from allotment.node.events import PodEvents
from allotment.node.image_names import PULL_FAILED, check_image
from allotment.node.probe_actions import attempt
from allotment.node.probes import Probe, probes_of
from allotment.node.runtimes.runtime import NotStarted
from allotment.node.sandbox_builder import NodeContext


def restart_delay(restarts: int, ran: float) -> float:
    """Back-off in seconds before a container restart: 10, 20, 40 … 300, reset after a run of ten minutes (kubelet)."""
    return 0.0 if restarts == 0 or ran > 600 else float(min(10 * 2 ** (restarts - 1), 300))


def crash_loop(pod: Tree, name: str, delay: float) -> WaitingReason:
    """The waiting state of a failed container that restarts after ``delay`` seconds."""
    meta = pod["metadata"]
    where = f"pod={meta['name']}_{meta.get('namespace', '')}({meta.get('uid', '')})"
    message = f"back-off {go_seconds(delay)} restarting failed container={name} {where}"
    return WaitingReason("CrashLoopBackOff", message)


def start_delay(failures: int, reason: str) -> float:
    """Seconds before a container start is retried: exponential after failed pulls, else the kubelet's ten."""
    return float(min(10 * 2 ** (failures - 1), 300)) if reason == PULL_FAILED else 10.0


def go_seconds(seconds: float) -> str:
    """A whole number of seconds as Go prints a duration.

    >>> go_seconds(10), go_seconds(160), go_seconds(300)
    ('10s', '2m40s', '5m0s')
    """
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


_DEFAULT_GRACE: Final = 30.0
#: Seconds until the kubelet looks at the pod again after a failed pull.
_SYNC_SECONDS: Final = 1.0
_FOR_EVER: Final = 1e9


class ContainerLifecycle:
    """Runs the containers of one pod. ``tree()``: the current pod; ``changed()``: called when its status changes.

    ``group`` is set while the pod runs; ``ending`` is true once no container will be started any more.
    """

    def __init__(
        self,
        context: NodeContext,
        pod_events: PodEvents,
        pod_ip: str,
        tree: Callable[[], Tree],
        changed: Callable[[], None],
    ) -> None:
        self.group: asyncio.TaskGroup | None = None
        self.ending = False
        self._context = context
        self._events = pod_events
        self._pod_ip = pod_ip
        self._tree = tree
        self._changed = changed
        self._ends_by = 0.0
        self._pauses: set[asyncio.Event] = set()
        #: The containers that are terminated to be started again.
        self._restarting: set[str] = set()

    @property
    def policy(self) -> str:
        """The pod's restart policy."""
        return str(self._tree()["spec"].get("restartPolicy", "Always"))

    @property
    def grace(self) -> float:
        """The pod's termination grace period in seconds."""
        return float(self._tree()["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE))

    @property
    def sidecars(self) -> frozenset[str]:
        """The names of init containers that always restart."""
        inits = self._tree()["spec"].get("initContainers") or ()
        return frozenset(spec["name"] for spec in inits if spec.get("restartPolicy") == "Always")

    # --- ending ---------------------------------------------------------------------------------------------------

    def end_all(self, containers: Sequence[Container], grace: float) -> None:
        """Start terminating all but sidecars within ``grace`` seconds. A later call may only shorten that."""
        ends_by = self._context.clock.seconds() + grace
        if self.ending and ends_by >= self._ends_by:
            return
        self._ends_by, self.ending = ends_by, True
        self.wake()
        for container in containers:
            container.up.set()  # release tasks that wait for its startup
            if self.group is not None and container.now is not None and container.name not in self.sidecars:
                self.group.create_task(self.end(container))

    async def end(self, container: Container) -> None:
        """Terminate the current run of a container; returns when it has ended."""
        left = max(self._ends_by - self._context.clock.seconds(), 0.0) if self.ending else self.grace
        await terminate_container(container, self._events, self._pod_ip, grace=left)

    # --- running --------------------------------------------------------------------------------------------------

    async def run_init(self, container: Container) -> bool:
        """Run an init container until it succeeds; False if it failed and may not be restarted."""
        while (ended := await self._run_once(container)) is not None:
            if ended.code == 0:
                return True
            if self.policy == "Never" or self.ending:
                return False
            await self._back_off(container, ended)
        return False

    def restart(self, container: Container, why: str) -> None:
        """Terminate the current run of a container, which then starts again whatever the restart policy."""
        if self.group is not None and container.now is not None and not self.ending:
            self._restarting.add(container.name)
            grace = self.grace
            self.group.create_task(terminate_container(container, self._events, self._pod_ip, grace=grace, why=why))

    async def run_restarting(self, container: Container, policy: str) -> None:
        """Run a container and restart it as ``policy`` requires."""
        while (ended := await self._run_once(container)) is not None:
            if container.name in self._restarting and not self.ending:
                self._restarting.discard(container.name)
                continue
            if policy == "Never" or (policy == "OnFailure" and ended.code == 0) or self.ending:
                return
            await self._back_off(container, ended)

    async def _run_once(self, container: Container) -> ContainerExit | None:
        """Run a container once; None if the pod ends before the start."""
        if not await self._start(container):
            return None
        group = self.group
        assert group is not None, "the pod is running"
        if self.ending:
            group.create_task(self.end(container))
        tasks = [group.create_task(self._post_start(container))] if _hook(container, "postStart") else []
        tasks += [group.create_task(probe.run()) for probe in self._probes(container)]
        try:
            return await container.wait()
        finally:
            await cancel_all(tasks)
            self._changed()

    async def _start(self, container: Container) -> bool:
        failures = 0
        while not self.ending:
            try:
                check_image(container.spec, pulls=not self._context.runtime.real)
                await container.start()
            except NotStarted as error:
                failures += 1
                await self._not_started(container, error, failures)
            else:
                self._events.pulled(container.spec)
                self._events.started(container.spec)
                self._changed()
                return True
        return False

    async def _not_started(self, container: Container, error: NotStarted, failures: int) -> None:
        self._events.not_started(container.spec, error.reason, str(error))
        container.waiting = WaitingReason(error.reason, str(error))
        self._changed()
        delay = start_delay(failures, error.reason)
        if error.reason == PULL_FAILED:
            await self.pause(_SYNC_SECONDS)
            if self.ending:
                return
            self._events.back_off_pulling(container.spec)
            message = f'Back-off pulling image "{container.image}": {error.reason}: {error}'
            container.waiting = WaitingReason("ImagePullBackOff", message)
            self._changed()
            delay -= _SYNC_SECONDS
        await self.pause(delay)

    async def _back_off(self, container: Container, ended: ContainerExit) -> None:
        delay = restart_delay(container.restarts, (ended.finished - ended.started).total_seconds())
        if delay:
            container.waiting = crash_loop(self._tree(), container.name, delay)
            self._events.restarting(container.spec)
            self._changed()
            await self.pause(delay)
            container.waiting = None

    def _probes(self, container: Container) -> Iterator[Probe]:
        def failed(text: str) -> None:
            self._events.container(container.spec, "Warning", "Unhealthy", text)

        def kill(probe: Tree, kind: str) -> None:
            if self.group is not None and not self.ending:
                again = "" if self.policy == "Never" and container.name not in self.sidecars else ", will be restarted"
                why = f"Container {container.name} failed {kind} probe{again}"
                grace = probe.get("terminationGracePeriodSeconds", self.grace)
                self.group.create_task(terminate_container(container, self._events, self._pod_ip, grace=grace, why=why))

        return probes_of(container, self._pod_ip, failed=failed, changed=self._changed, kill=kill)

    async def _post_start(self, container: Container) -> None:
        hook = _hook(container, "postStart")
        outcome = await attempt(hook, container, self._pod_ip, seconds=_FOR_EVER, clock=self._context.clock)
        if not outcome.ok and self.group is not None:
            self._events.container(container.spec, "Warning", "FailedPostStartHook", "PostStartHook failed")
            why = "FailedPostStartHook"
            self.group.create_task(
                terminate_container(container, self._events, self._pod_ip, grace=self.grace, why=why)
            )

    async def pause(self, seconds: float) -> None:
        """Sleep until the time is over, the pod ends or :meth:`wake` is called."""
        if self.ending:
            return
        over = asyncio.Event()
        self._pauses.add(over)
        timer = self._context.clock.later(seconds, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()
            self._pauses.discard(over)

    def wake(self) -> None:
        """End all pauses."""
        for pause in self._pauses:
            pause.set()


def _hook(container: Container, name: str) -> Tree:
    return (container.spec.get("lifecycle") or {}).get(name) or {}


#: Minimum grace period of a container in seconds.
_MIN_GRACE_SECONDS: Final = 2.0


async def terminate_container(
    container: Container, pod_events: PodEvents, pod_ip: str, *, grace: float, why: str = ""
) -> None:
    """Terminate a container: preStop hook, SIGTERM, and SIGKILL after ``grace`` seconds of its clock.

    Returns when it has ended. The ``preStop`` hook counts toward that time. A container that is already terminating
    gets no second hook or event.
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
        await now.stop(max(grace, _MIN_GRACE_SECONDS))
