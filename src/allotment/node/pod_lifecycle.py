"""The lifecycle of a pod on its node, from binding to termination.

Claims come first: no container starts before their drivers have prepared them. Then the init containers run one after
another (sidecars keep running), then the main containers together. Every change of state is written to the pod's
status. At the end (exit, deadline or deletion) the containers get their grace period, the claims are unprepared, and
only then does the status report an ended phase, because the claim controller releases the devices when it sees that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from allotment.cluster.clock import Timer
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import PODS
from allotment.model.trees import Tree
from allotment.node import pod_resize, volumes
from allotment.node.container_files import Directory
from allotment.node.container_lifecycle import ContainerLifecycle
from allotment.node.containers import Container
from allotment.node.events import PodEvents
from allotment.node.pod_admission import rejection
from allotment.node.pod_claims import ClaimsError
from allotment.node.pod_mounts import NotMounted, mount_volumes
from allotment.node.pod_status import Outlook, ended_phase, phase_of, status_patch
from allotment.node.runtimes.runtime import Sandbox
from allotment.node.sandbox_builder import NodeContext

#: Simulated seconds for pulling images and starting containers.
START_SECONDS: Final = 0.1
#: The kubelet's retry delay in seconds, plus up to half of it as jitter.
_AGAIN_SECONDS: Final = 10.0
#: Seconds before the second attempt to mount a volume, and the most before a later one.
_MOUNT_SECONDS, _MOUNT_MOST_SECONDS = 0.5, 122.0
_DEADLINE: Final = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")

log = logging.getLogger(__name__)


class PodRun:
    """Runs one pod. ``tree`` is the newest version of the pod; the agent updates it."""

    def __init__(self, tree: Tree, context: NodeContext, pod_ip: str) -> None:
        self.tree = tree
        self.context = context
        self.pod_ip = pod_ip
        self.inits: list[Container] = []
        self.mains: list[Container] = []
        self.ephemerals: list[Container] = []
        self._events = PodEvents(context.recorder, tree)
        self._lifecycle = ContainerLifecycle(context, self._events, pod_ip, lambda: self.tree, self.refresh)
        self._claims: Mapping[str, Tree] = {}
        self._volumes: dict[str, Directory] = {}
        self._changed = asyncio.Event()
        self._woken = False
        self._over = False
        self._silent = False
        self._stuck = False
        self._reason = ("", "")
        self._deadline: Timer | None = None
        #: Why new resources of the pod are not admitted.
        self._pending: pod_resize.ResizePending | None = None

    # --- called by the agent --------------------------------------------------------------------------------------

    def find(self, name: str) -> Container | None:
        """A container by its name."""
        return next((c for c in self._all if c.name == name), None)

    def retry_now(self) -> None:
        """Retry now: what the pod waits for may be available."""
        if not self.mains:
            self._woken = True
            self._lifecycle.wake()

    def refresh(self) -> None:
        """Write the status again: something outside the pod that it reports has changed."""
        self._changed.set()

    def spec_changed(self) -> None:
        """Apply what may change in a running pod's spec, and report that the new generation was seen."""
        if self._lifecycle.group is not None:
            self._start_deadline()
            self._start_ephemerals()
            self._resize()
        self._changed.set()

    def resources_released(self) -> None:
        """Retry a resize that was deferred: another pod has left the node."""
        if self._pending is not None:
            self.spec_changed()

    @property
    def _all(self) -> tuple[Container, ...]:
        return (*self.inits, *self.mains, *self.ephemerals)

    def _start_ephemerals(self) -> None:
        """Start the ephemeral containers that were added; they run once."""
        known = {container.name for container in self.ephemerals}
        group = self._lifecycle.group
        for spec in self.tree["spec"].get("ephemeralContainers") or ():
            if spec["name"] not in known and group is not None and self.mains and not self._lifecycle.ending:
                container = self._container({"imagePullPolicy": "IfNotPresent", **spec})
                self.ephemerals.append(container)
                group.create_task(self._lifecycle.run_restarting(container, "Never"))

    def _resize(self) -> None:
        """Give the containers the resources of the spec, if the node has them."""
        pod = self.tree["spec"]
        specs = {spec["name"]: spec for spec in (*(pod.get("initContainers") or ()), *pod["containers"])}
        changed = [
            (container, specs[container.name])
            for container in (*self.inits, *self.mains)
            if container.spec.get("resources") != specs[container.name].get("resources")
        ]
        before, self._pending = self._pending, None
        if not changed or self._lifecycle.ending:
            return
        uid = self.tree["metadata"]["uid"]
        self._pending = pod_resize.refusal(self.tree, self.context.tree(), self.context.others(uid))
        if self._pending is not None:
            if before != self._pending:
                reason, message = self._pending
                text = pod_resize.summary(f"Pod resize {reason}", self.tree, message)
                self._events.pod("Warning", f"Resize{reason}", text)
            return
        self._events.pod("Normal", "ResizeStarted", pod_resize.summary("Pod resize started", self.tree))
        for container, spec in changed:
            again = pod_resize.restarts(container.spec, spec)
            container.spec = spec
            if again:
                self._lifecycle.restart(container, f"Container {container.name} resize requires restart")
        self._events.pod("Normal", "ResizeCompleted", pod_resize.summary("Pod resize completed", self.tree))

    def restarted(self) -> PodRun:
        """A new run of the pod after an internal error; it only terminates if this one was terminating."""
        run = PodRun(self.tree, self.context, self.pod_ip)
        run._silent, run._reason = self._silent, self._reason
        if self._lifecycle.ending:
            run.end(0)
        return run

    def stop_reporting(self) -> None:
        """Stop writing the status: the program ends, and in the API its pods keep running."""
        self._silent = True

    def end(self, grace: float) -> None:
        """Start terminating the containers within ``grace`` seconds, whatever the restart policy. May be repeated."""
        self._lifecycle.end_all(self._all, grace)

    @property
    def phase(self) -> str:
        """The pod's phase, computed from its containers."""
        return phase_of(self.tree, self.inits, self.mains, self._outlook)

    # --- lifecycle ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the pod until it has terminated."""
        try:
            async with asyncio.TaskGroup() as group:
                self._lifecycle.group = group
                writer = group.create_task(self._write())
                self._start_deadline()
                sidecars = await self._run_containers(group)
                if not self._lifecycle.ending:
                    self.end(self._lifecycle.grace)
                for container, task in reversed(sidecars):
                    await self._lifecycle.end(container)
                    await task
                self._stop_deadline()
                await self._unprepare()
                self._over = True
                self._changed.set()
                await writer
        finally:
            self._stop_deadline()
            self._lifecycle.group = None
        if self.context.state is not None:  # in a thread: there may be many files
            await asyncio.to_thread(volumes.remove, self.context.state, self.tree["metadata"]["uid"])

    async def _run_containers(self, group: asyncio.TaskGroup) -> list[tuple[Container, asyncio.Task[None]]]:
        """Run until the main containers have finished or cannot start; returns the sidecars that still run."""
        sidecars: list[tuple[Container, asyncio.Task[None]]] = []
        if not self._admit() or not await self._mount() or not await self._prepare():
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
            self._start_ephemerals()
            await asyncio.gather(
                *(group.create_task(self._lifecycle.run_restarting(c, self._lifecycle.policy)) for c in self.mains)
            )
        return sidecars

    def _admit(self) -> bool:
        """Whether the pod may run on its node; otherwise it fails."""
        found = rejection(self.tree, self.context.tree(), self.context.others(self.tree["metadata"]["uid"]))
        if found is not None:
            self._events.pod("Warning", *found)
            self._reason = (found.reason, f"Pod was rejected: {found.message}")
        return found is None

    async def _mount(self) -> bool:
        """Wait for what the pod's volumes need, with the kubelet's back-off; False if the pod ends first."""
        context, delay = self.context, _MOUNT_SECONDS
        while not self._lifecycle.ending:
            self._woken = False
            try:
                found = await mount_volumes(self.tree, context.client, context.persistent, context.state)
                self._volumes.update(found)
                return not self._lifecycle.ending
            except NotMounted as error:
                for text in error.texts:
                    self._events.pod("Warning", "FailedMount", text)
            self._changed.set()
            if not self._woken:
                await self._lifecycle.pause(delay)
            delay = min(delay * 2, _MOUNT_MOST_SECONDS)
        return False

    async def _prepare(self) -> bool:
        """Prepare the claims, retrying until it succeeds; False if the pod ends first."""
        if not self._has_claims:
            return not self._lifecycle.ending
        while not self._lifecycle.ending:
            self._woken = False
            try:
                self._claims = await self.context.claims.prepare(self.tree)
                return not self._lifecycle.ending
            except ClaimsError as error:
                message = f"Failed to prepare dynamic resources: {error}"
                self._events.pod("Warning", "FailedPrepareDynamicResources", message)
            self._changed.set()
            if not self._woken:
                await self._lifecycle.pause(_AGAIN_SECONDS * (1 + self.context.random.random() / 2))
        return False

    async def _unprepare(self) -> None:
        """Unprepare the claims, retrying until it succeeds."""
        uid = self.tree["metadata"]["uid"]
        while self._has_prepared_claims:
            try:
                await self.context.claims.unprepare(uid)
            except ClaimsError as error:
                log.warning(
                    "pod %s/%s: %s", self.tree["metadata"].get("namespace"), self.tree["metadata"]["name"], error
                )
                self._stuck = True
                self._changed.set()
                await self.context.clock.sleep(_AGAIN_SECONDS * (1 + self.context.random.random() / 2))

    def _start_deadline(self) -> None:
        """Wait for the deadline of the pod, which clients may set or shorten while it runs."""
        self._stop_deadline()
        seconds = self.tree["spec"].get("activeDeadlineSeconds")
        if seconds is None or self._lifecycle.ending:
            return
        start = self._status.get("startTime")
        left = self.context.clock.left(start, seconds) if start else float(seconds)
        self._deadline = self.context.clock.later(left, self._expire)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self) -> None:
        self._reason = _DEADLINE
        self._events.pod("Normal", *_DEADLINE)
        self.end(self._lifecycle.grace)

    # --- containers -----------------------------------------------------------------------------------------------

    def _container(self, spec: Tree) -> Container:
        async def sandbox() -> Sandbox:
            return await self.context.sandbox(
                lambda: self.tree, container.spec, self.pod_ip, self._claims, self._volumes
            )

        container = Container(spec, runtime=self.context.runtime, clock=self.context.clock, sandbox=sandbox)
        return container

    # --- the status -----------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        """Write the status after every change; changes during a write are combined into the next one."""
        while self._changed.is_set() or not self._over:
            await self._changed.wait()
            self._changed.clear()
            if self._silent:
                return
            if self._settling or (self._over and not self.mains and not self._reason[0]):
                continue  # another change follows immediately, or there is nothing to report
            meta = self.tree["metadata"]
            patch = status_patch(
                self.tree, self.inits, self.mains, host_ip=self.context.host_ip(), pod_ip=self.pod_ip,
                now=self.context.clock.now(), outlook=self._outlook,
                allocated=lambda spec: self.context.allocated(self.tree, spec), ephemerals=self.ephemerals,
                pending=self._pending,
            )  # fmt: skip
            patch["metadata"] = {"uid": meta["uid"]}  # a new pod may already have this name
            try:
                self.tree = await self.context.client.patch(
                    PODS, meta["name"], patch, meta["namespace"], kind="strategic", subresource="status"
                )
            except (StatusError, Unreachable) as error:
                if isinstance(error, StatusError) and error.code == 404:
                    return
                log.warning("cannot write the status of pod %s/%s: %s", meta["namespace"], meta["name"], error)
                if isinstance(error, Unreachable) or error.code in (409, 429) or error.code >= 500:
                    self._changed.set()
                    await asyncio.sleep(1)

    @property
    def _settling(self) -> bool:
        """Whether all containers have ended and their claims are being unprepared without an error so far."""
        if self._over or self._stuck or not ended_phase(self.tree, self.inits, self.mains, self._outlook):
            return False
        return self._has_prepared_claims

    @property
    def _outlook(self) -> Outlook:
        held = not self._over and (any(c.running for c in self.inits) or self._has_prepared_claims)
        return Outlook(self._lifecycle.ending, held, *self._reason)

    @property
    def _has_prepared_claims(self) -> bool:
        """Whether claims of the pod still have to be unprepared."""
        return self._has_claims and self.context.claims.has_claims(self.tree["metadata"]["uid"])

    @property
    def _has_claims(self) -> bool:
        return bool(self.tree["spec"].get("resourceClaims") or "extendedResourceClaimStatus" in self._status)

    @property
    def _status(self) -> Tree:
        return self.tree.get("status") or {}
