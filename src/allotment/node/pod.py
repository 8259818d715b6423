"""A pod on a node, from its binding to its end.

Claims first: nothing starts before their drivers have prepared them. Then the init containers one after another, those
that restart always staying beside the main ones, then these together. Every change of state is written to the pod's
status. At the end, be it the containers' own, a deadline or a deletion, they are given time to stop, the claims are
undone, and only then does the status say that the pod ended: whoever frees the devices goes by that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import PODS
from allotment.node import volumes
from allotment.node.conditions import Outlook, ended_phase, phase_of, status_patch
from allotment.node.containers import Container, Ended, Waiting, stopped
from allotment.node.ending import end
from allotment.node.handlers import attempt
from allotment.node.place import Place
from allotment.node.pod_claims import ClaimsError
from allotment.node.probes import probes_of
from allotment.node.restarts import crash_loop, restart_delay, start_delay
from allotment.node.runtimes.runtime import NotStarted, Sandbox
from allotment.node.telling import Telling

Tree = dict[str, Any]

#: What pulling an image and starting a container takes here.
START_SECONDS: Final = 0.1
#: A kubelet's pause before it tries again what failed: half of it more, by chance.
_AGAIN_SECONDS: Final = 10.0
_DEADLINE: Final = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
_USUAL_GRACE: Final = 30.0

log = logging.getLogger(__name__)


class PodRun:
    """One pod's containers. ``tree`` is the newest state of the pod; the agent keeps it so."""

    def __init__(self, tree: Tree, place: Place, pod_ip: str) -> None:
        self.tree = tree
        self.place = place
        self.pod_ip = pod_ip
        self.inits: list[Container] = []
        self.mains: list[Container] = []
        self._telling = Telling(place.recorder, tree)
        self._claims: Mapping[str, Tree] = {}
        self._group: asyncio.TaskGroup | None = None
        self._changed = asyncio.Event()
        self._pauses: set[asyncio.Event] = set()
        self._news = False
        self._over = False
        self._silent = False
        self._ending = False
        self._stuck = False
        self._ends_by = 0.0
        self._reason = ("", "")

    # --- from outside ---------------------------------------------------------------------------------------------

    def find(self, name: str) -> Container | None:
        """A container by its name."""
        return next((c for c in (*self.inits, *self.mains) if c.name == name), None)

    def look(self) -> None:
        """What the pod waits for may be there: do not wait longer."""
        if not self.mains:
            self._news = True
            self._wake()

    def refresh(self) -> None:
        """Something outside changed that the status tells."""
        self._changed.set()

    def hush(self) -> None:
        """Write nothing any more: the node's program ends, and its pods run on as far as anybody can see."""
        self._silent = True

    def end(self, grace: float) -> None:
        """Begin the end, whatever the restart policy; the containers have so many seconds. May be said again."""
        self._ends_by = self.place.clock.seconds() + grace
        again, self._ending = self._ending, True
        self._wake()
        if self._group is not None and (not again or grace <= 0):
            for container in (*self.inits, *self.mains):
                container.up.set()  # nobody waits any more for it to come up
                if container.name not in self._sidecars:
                    self._group.create_task(self._end(container))

    @property
    def phase(self) -> str:
        """The phase that its containers make."""
        return phase_of(self.tree, self.inits, self.mains, self._outlook)

    # --- the life of the pod --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run to the end."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                writer = group.create_task(self._write())
                deadline = self._after_deadline(group)
                sidecars = await self._live(group)
                if not self._ending:
                    self.end(self._grace)
                for container, task in reversed(sidecars):
                    await self._end(container)
                    await task
                await stopped([deadline] if deadline else [])
                await self._undo()
                self._over = True
                self._changed.set()
                await writer
        finally:
            self._group = None
        volumes.remove(self.place.state, self.tree["metadata"]["uid"])

    async def _live(self, group: asyncio.TaskGroup) -> list[tuple[Container, asyncio.Task[None]]]:
        """Until the main containers are done, or never will be; the sidecars that run on."""
        sidecars: list[tuple[Container, asyncio.Task[None]]] = []
        if not await self._prepared():
            return sidecars
        spec = self.tree["spec"]
        self.inits = [self._container(each) for each in spec.get("initContainers") or ()]
        self.mains = [self._container(each) for each in spec["containers"]]
        await self._pause(START_SECONDS)
        for container in self.inits:
            if self._ending:
                return sidecars
            if container.name in self._sidecars:
                sidecars.append((container, group.create_task(self._again(container, "Always"))))
                await container.up.wait()
            elif not await self._init(container):
                return sidecars
        if not self._ending:
            await asyncio.gather(*(group.create_task(self._again(c, self._policy)) for c in self.mains))
        return sidecars

    async def _prepared(self) -> bool:
        """Have the claims prepared, however long it takes; False when the pod is to end before."""
        if not self._has_claims:
            return not self._ending
        while not self._ending:
            self._news = False
            try:
                self._claims = await self.place.claims.prepare(self.tree)
                return not self._ending
            except ClaimsError as error:
                told = f"Failed to prepare dynamic resources: {error}"
                self._telling.pod("Warning", "FailedPrepareDynamicResources", told)
            self._changed.set()
            if not self._news:
                await self._pause(_AGAIN_SECONDS * (1 + self.place.random.random() / 2))
        return False

    async def _undo(self) -> None:
        """Have the claims undone, however long it takes."""
        uid = self.tree["metadata"]["uid"]
        while self._owing:
            try:
                await self.place.claims.unprepare(uid)
            except ClaimsError as error:
                log.warning(
                    "pod %s/%s: %s", self.tree["metadata"].get("namespace"), self.tree["metadata"]["name"], error
                )
                self._stuck = True
                self._changed.set()
                await self.place.clock.sleep(_AGAIN_SECONDS * (1 + self.place.random.random() / 2))

    def _after_deadline(self, group: asyncio.TaskGroup) -> asyncio.Task[None] | None:
        seconds = self.tree["spec"].get("activeDeadlineSeconds")
        if seconds is None:
            return None
        start = self._status.get("startTime")
        left = self.place.clock.left(start, seconds) if start else float(seconds)

        async def expire() -> None:
            await self.place.clock.sleep(left)
            self._reason = _DEADLINE
            self._telling.pod("Normal", *_DEADLINE)
            self.end(self.tree["spec"].get("terminationGracePeriodSeconds", _USUAL_GRACE))

        return group.create_task(expire())

    # --- containers -----------------------------------------------------------------------------------------------

    def _container(self, spec: Tree) -> Container:
        async def sandbox() -> Sandbox:
            return await self.place.sandbox(self.tree, spec, self.pod_ip, self._claims)

        return Container(spec, runtime=self.place.runtime, clock=self.place.clock, sandbox=sandbox)

    async def _init(self, container: Container) -> bool:
        """Run an init container until it succeeds; False when it may not be run again."""
        while (ended := await self._once(container)) is not None:
            if ended.code == 0:
                return True
            if self._policy == "Never" or self._ending:
                return False
            await self._back_off(container, ended)
        return False

    async def _again(self, container: Container, policy: str) -> None:
        while (ended := await self._once(container)) is not None:
            if policy == "Never" or (policy == "OnFailure" and ended.code == 0) or self._ending:
                return
            await self._back_off(container, ended)

    async def _once(self, container: Container) -> Ended | None:
        """One run, to its end; None when the pod is to end before it could begin."""
        if not await self._started(container):
            return None
        group = self._group
        assert group is not None, "containers run while their pod does"
        if self._ending:
            group.create_task(self._end(container))
        beside = [group.create_task(self._post_start(container))] if _hook(container, "postStart") else []
        beside += [group.create_task(probe.run()) for probe in self._probes(container)]
        try:
            return await container.wait()
        finally:
            await stopped(beside)
            self._changed.set()

    async def _started(self, container: Container) -> bool:
        failures = 0
        while not self._ending:
            try:
                await container.start()
            except NotStarted as error:
                failures += 1
                await self._not_started(container, error, failures)
            else:
                self._telling.pulled(container.spec)
                self._telling.started(container.spec)
                self._changed.set()
                return True
        return False

    async def _not_started(self, container: Container, error: NotStarted, failures: int) -> None:
        image = error.reason.startswith("ErrImage")
        if not image:
            self._telling.pulled(container.spec)
        self._telling.container(container.spec, "Warning", "Failed", str(error) if image else f"Error: {error}")
        container.waiting = Waiting(error.reason, str(error))
        self._changed.set()
        if image and failures > 1:
            told = f'Back-off pulling image "{container.image}": {error.reason}: {error}'
            container.waiting = Waiting("ImagePullBackOff", told)
        await self._pause(start_delay(failures, error.reason))

    async def _back_off(self, container: Container, ended: Ended) -> None:
        delay = restart_delay(container.restarts, (ended.finished - ended.started).total_seconds())
        if delay:
            container.waiting = crash_loop(self.tree, container.name, delay)
            self._telling.restarting(container.spec)
            self._changed.set()
            await self._pause(delay)
            container.waiting = None

    def _probes(self, container: Container) -> Any:
        def failed(text: str) -> None:
            self._telling.container(container.spec, "Warning", "Unhealthy", text)

        def kill(probe: Tree, kind: str) -> None:
            if self._group is not None and not self._ending:
                again = (
                    "" if self._policy == "Never" and container.name not in self._sidecars else ", will be restarted"
                )
                why = f"Container {container.name} failed {kind} probe{again}"
                grace = probe.get("terminationGracePeriodSeconds", self._grace)
                self._group.create_task(end(container, self._telling, self.pod_ip, grace=grace, why=why))

        return probes_of(container, self.pod_ip, failed=failed, changed=self._changed.set, kill=kill)

    async def _post_start(self, container: Container) -> None:
        hook = _hook(container, "postStart")
        outcome = await attempt(hook, container, self.pod_ip, seconds=1e9, clock=self.place.clock)
        if not outcome.ok and self._group is not None:
            self._telling.container(container.spec, "Warning", "FailedPostStartHook", "PostStartHook failed")
            why = "FailedPostStartHook"
            self._group.create_task(end(container, self._telling, self.pod_ip, grace=self._grace, why=why))

    async def _end(self, container: Container) -> None:
        grace = max(self._ends_by - self.place.clock.seconds(), 0.0) if self._ending else self._grace
        await end(container, self._telling, self.pod_ip, grace=grace)

    async def _pause(self, seconds: float) -> None:
        """Wait, unless the pod is to end or :meth:`look`."""
        if self._ending:
            return
        over = asyncio.Event()
        self._pauses.add(over)
        timer = self.place.clock.later(seconds, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()
            self._pauses.discard(over)

    def _wake(self) -> None:
        for pause in self._pauses:
            pause.set()

    # --- the status -----------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        """Write the status whenever it changed; what happens meanwhile is one write more."""
        while self._changed.is_set() or not self._over:
            await self._changed.wait()
            self._changed.clear()
            if self._silent:
                return
            if self._settling or (self._over and not self.mains and not self._reason[0]):
                continue  # there will be more to tell at once, or there never was anything
            meta = self.tree["metadata"]
            patch = status_patch(
                self.tree, self.inits, self.mains, host_ip=self.place.host_ip(), pod_ip=self.pod_ip,
                now=self.place.clock.now(), outlook=self._outlook,
                allocated=lambda spec: self.place.allocated(self.tree, spec),
            )  # fmt: skip
            try:
                self.tree = await self.place.client.patch(
                    PODS, meta["name"], patch, meta["namespace"], kind="strategic", subresource="status"
                )
            except (StatusError, Unreachable) as error:
                if isinstance(error, StatusError) and error.code == 404:
                    return
                log.warning("status of pod %s/%s: %s", meta["namespace"], meta["name"], error)
                if isinstance(error, Unreachable) or error.code in (409, 429) or error.code >= 500:
                    self._changed.set()
                    await asyncio.sleep(1)

    @property
    def _settling(self) -> bool:
        """Whether the containers have all ended, and their drivers are being told and have not refused yet."""
        if self._over or self._stuck or not ended_phase(self.tree, self.inits, self.mains, self._outlook):
            return False
        return self._owing

    @property
    def _outlook(self) -> Outlook:
        held = not self._over and (any(c.running for c in self.inits) or self._owing)
        return Outlook(self._ending, held, *self._reason)

    @property
    def _owing(self) -> bool:
        """Whether drivers still have to undo something for the pod."""
        return self._has_claims and self.place.claims.has(self.tree["metadata"]["uid"])

    @property
    def _has_claims(self) -> bool:
        return bool(self.tree["spec"].get("resourceClaims") or "extendedResourceClaimStatus" in self._status)

    @property
    def _policy(self) -> str:
        return str(self.tree["spec"].get("restartPolicy", "Always"))

    @property
    def _status(self) -> Tree:
        return self.tree.get("status") or {}

    @property
    def _grace(self) -> float:
        return float(self.tree["spec"].get("terminationGracePeriodSeconds", _USUAL_GRACE))

    @property
    def _sidecars(self) -> frozenset[str]:
        inits = self.tree["spec"].get("initContainers") or ()
        return frozenset(spec["name"] for spec in inits if spec.get("restartPolicy") == "Always")


def _hook(container: Container, name: str) -> Tree:
    return (container.spec.get("lifecycle") or {}).get(name) or {}
