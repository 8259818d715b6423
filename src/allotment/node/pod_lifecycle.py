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
from typing import Final

from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import PODS
from allotment.model.trees import Tree
from allotment.node import volumes
from allotment.node.container_lifecycle import ContainerLifecycle
from allotment.node.containers import Container, cancel_all
from allotment.node.events import PodEvents
from allotment.node.pod_claims import ClaimsError
from allotment.node.pod_status import Outlook, ended_phase, phase_of, status_patch
from allotment.node.runtimes.runtime import Sandbox
from allotment.node.sandbox_builder import NodeContext

#: What pulling an image and starting a container takes here.
START_SECONDS: Final = 0.1
#: A kubelet's pause before it tries again what failed: half of it more, by chance.
_AGAIN_SECONDS: Final = 10.0
_DEADLINE: Final = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")

log = logging.getLogger(__name__)


class PodRun:
    """One pod's containers. ``tree`` is the newest state of the pod; the agent keeps it so."""

    def __init__(self, tree: Tree, place: NodeContext, pod_ip: str) -> None:
        self.tree = tree
        self.place = place
        self.pod_ip = pod_ip
        self.inits: list[Container] = []
        self.mains: list[Container] = []
        self._events = PodEvents(place.recorder, tree)
        self._lifecycle = ContainerLifecycle(place, self._events, pod_ip, lambda: self.tree, self.refresh)
        self._claims: Mapping[str, Tree] = {}
        self._changed = asyncio.Event()
        self._woken = False
        self._over = False
        self._silent = False
        self._stuck = False
        self._reason = ("", "")

    # --- from outside ---------------------------------------------------------------------------------------------

    def find(self, name: str) -> Container | None:
        """A container by its name."""
        return next((c for c in (*self.inits, *self.mains) if c.name == name), None)

    def retry_now(self) -> None:
        """What the pod waits for may be there: do not wait longer."""
        if not self.mains:
            self._woken = True
            self._lifecycle.wake()

    def refresh(self) -> None:
        """Something outside changed that the status tells."""
        self._changed.set()

    def restarted(self) -> PodRun:
        """The run after this one, which broke down: from the beginning, or just to the end if that has begun."""
        run = PodRun(self.tree, self.place, self.pod_ip)
        run._silent, run._reason = self._silent, self._reason
        if self._lifecycle.ending:
            run.end(0)
        return run

    def stop_reporting(self) -> None:
        """Write nothing any more: the node's program ends, and its pods run on as far as anybody can see."""
        self._silent = True

    def end(self, grace: float) -> None:
        """Begin the end, whatever the restart policy; the containers have so many seconds. May be said again."""
        self._lifecycle.end_all((*self.inits, *self.mains), grace)

    @property
    def phase(self) -> str:
        """The phase that its containers make."""
        return phase_of(self.tree, self.inits, self.mains, self._outlook)

    # --- the life of the pod --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run to the end."""
        try:
            async with asyncio.TaskGroup() as group:
                self._lifecycle.group = group
                writer = group.create_task(self._write())
                deadline = self._after_deadline(group)
                sidecars = await self._live(group)
                if not self._lifecycle.ending:
                    self.end(self._lifecycle.grace)
                for container, task in reversed(sidecars):
                    await self._lifecycle.end(container)
                    await task
                await cancel_all([deadline] if deadline else [])
                await self._undo()
                self._over = True
                self._changed.set()
                await writer
        finally:
            self._lifecycle.group = None
        if self.place.state is not None:  # a pod may have written as much as it liked
            await asyncio.to_thread(volumes.remove, self.place.state, self.tree["metadata"]["uid"])

    async def _live(self, group: asyncio.TaskGroup) -> list[tuple[Container, asyncio.Task[None]]]:
        """Until the main containers are done, or never will be; the sidecars that run on."""
        sidecars: list[tuple[Container, asyncio.Task[None]]] = []
        if not await self._prepared():
            return sidecars
        spec = self.tree["spec"]
        self.inits = [self._container(each) for each in spec.get("initContainers") or ()]
        self.mains = [self._container(each) for each in spec["containers"]]
        await self._lifecycle.pause(START_SECONDS)
        for container in self.inits:
            if self._lifecycle.ending:
                return sidecars
            if container.name in self._lifecycle.sidecars:
                sidecars.append((container, group.create_task(self._lifecycle.run_restarting(container, "Always"))))
                await container.up.wait()
            elif not await self._lifecycle.run_init(container):
                return sidecars
        if not self._lifecycle.ending:
            await asyncio.gather(*(group.create_task(self._lifecycle.run_restarting(c, self._lifecycle.policy)) for c in self.mains))
        return sidecars

    async def _prepared(self) -> bool:
        """Have the claims prepared, however long it takes; False when the pod is to end before."""
        if not self._has_claims:
            return not self._lifecycle.ending
        while not self._lifecycle.ending:
            self._woken = False
            try:
                self._claims = await self.place.claims.prepare(self.tree)
                return not self._lifecycle.ending
            except ClaimsError as error:
                told = f"Failed to prepare dynamic resources: {error}"
                self._events.pod("Warning", "FailedPrepareDynamicResources", told)
            self._changed.set()
            if not self._woken:
                await self._lifecycle.pause(_AGAIN_SECONDS * (1 + self.place.random.random() / 2))
        return False

    async def _undo(self) -> None:
        """Have the claims undone, however long it takes."""
        uid = self.tree["metadata"]["uid"]
        while self._has_prepared_claims:
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
            self._events.pod("Normal", *_DEADLINE)
            self.end(self._lifecycle.grace)

        return group.create_task(expire())

    # --- containers -----------------------------------------------------------------------------------------------

    def _container(self, spec: Tree) -> Container:
        async def sandbox() -> Sandbox:
            return await self.place.sandbox(self.tree, spec, self.pod_ip, self._claims)

        return Container(spec, runtime=self.place.runtime, clock=self.place.clock, sandbox=sandbox)

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
            patch["metadata"] = {"uid": meta["uid"]}  # of this pod: one of its name may be there already
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
        return self._has_prepared_claims

    @property
    def _outlook(self) -> Outlook:
        held = not self._over and (any(c.running for c in self.inits) or self._has_prepared_claims)
        return Outlook(self._lifecycle.ending, held, *self._reason)

    @property
    def _has_prepared_claims(self) -> bool:
        """Whether drivers still have to undo something for the pod."""
        return self._has_claims and self.place.claims.has_claims(self.tree["metadata"]["uid"])

    @property
    def _has_claims(self) -> bool:
        return bool(self.tree["spec"].get("resourceClaims") or "extendedResourceClaimStatus" in self._status)

    @property
    def _status(self) -> Tree:
        return self.tree.get("status") or {}
