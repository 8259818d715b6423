"""A pod on a simulated node, from its binding to its end.

Claims first: nothing starts before each is allocated and reserved for the pod. Then the init containers one after
another, those that restart always staying beside the main ones, then these together. Every change of state is written
to the pod's status; a pod that is to be deleted is stopped and then taken out of the API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import PODS
from allotment.node.conditions import phase_of, restart_delay, status_patch
from allotment.node.containers import Container, stopped

Tree = dict[str, Any]

#: What pulling an image and starting a container takes here.
START_SECONDS: Final = 0.1


class PodRun:
    """One pod's containers. ``tree`` is the newest state of the pod; the kubelet keeps it so."""

    def __init__(
        self, tree: Tree, *, client: Client, clock: Clock, host_ip: str, pod_ip: str,
        container: Callable[[Tree, Tree], Container],
    ) -> None:  # fmt: skip
        self.tree = tree
        self.host_ip = host_ip
        self.pod_ip = pod_ip
        self.inits: list[Container] = []
        self.mains: list[Container] = []
        self._client = client
        self._clock = clock
        self._container = container
        self._changed = asyncio.Event()
        self._over = False
        self._silent = False
        self._waiting: dict[str, str] = {}

    def find(self, name: str) -> Container | None:
        """A container by its name."""
        return next((c for c in (*self.inits, *self.mains) if c.name == name), None)

    async def run(self, prepared: Callable[[], bool], retry: asyncio.Event) -> None:
        """Run to the end. ``prepared`` tells whether the claims are there; ``retry`` is set when that may change."""
        while not prepared():
            retry.clear()
            await retry.wait()
        spec = self.tree["spec"]
        self.inits = [self._container(self.tree, each) for each in spec.get("initContainers") or ()]
        self.mains = [self._container(self.tree, each) for each in spec["containers"]]
        await self._clock.sleep(START_SECONDS)
        async with asyncio.TaskGroup() as group:
            writer = group.create_task(self._write())
            sidecars: list[asyncio.Task[None]] = []
            failed = False
            for each, container in zip(spec.get("initContainers") or (), self.inits, strict=True):
                if each.get("restartPolicy") == "Always":
                    sidecars.append(group.create_task(self._again(container, "Always")))
                elif not await self._init(container):
                    failed = True
                    break
            if not failed:
                await asyncio.gather(*(group.create_task(self._main(container)) for container in self.mains))
            await stopped(sidecars)
            self._over = True
            self._changed.set()
            await writer

    def hush(self) -> None:
        """Write nothing any more: the node's program ends, and its pods run on as far as anybody can see."""
        self._silent = True

    async def stop(self, run: asyncio.Task[None]) -> None:
        """End the containers and take the pod out of the API."""
        await stopped([run])
        meta = self.tree["metadata"]
        try:
            await self._client.delete(PODS, meta["name"], meta["namespace"], uid=meta["uid"], grace_seconds=0)
        except StatusError as error:
            if error.code not in (404, 409):
                raise

    @property
    def _policy(self) -> str:
        return str(self.tree["spec"].get("restartPolicy", "Always"))

    async def _init(self, container: Container) -> bool:
        """Run an init container until it succeeds; False when it may not be run again."""
        while True:
            if (await self._once(container)).code == 0:
                return True
            if self._policy == "Never":
                return False
            await self._back_off(container)

    async def _main(self, container: Container) -> None:
        await self._again(container, self._policy)

    async def _again(self, container: Container, policy: str) -> None:
        while True:
            ended = await self._once(container)
            if policy == "Never" or (policy == "OnFailure" and ended.code == 0):
                return
            await self._back_off(container)

    async def _once(self, container: Container) -> Any:
        running = asyncio.ensure_future(container.run())
        await asyncio.sleep(0)
        self._changed.set()
        try:
            return await running
        finally:
            running.cancel()
            self._changed.set()

    async def _back_off(self, container: Container) -> None:
        ended = container.ended
        assert ended is not None, "only what ended is run again"
        delay = restart_delay(container.restarts, (ended.finished - ended.started).total_seconds())
        if delay:
            self._waiting[container.name] = "CrashLoopBackOff"
            self._changed.set()
            await self._clock.sleep(delay)
            del self._waiting[container.name]

    async def _write(self) -> None:
        """Write the status whenever it changed; what happens meanwhile is one write more."""
        while self._changed.is_set() or not self._over:
            await self._changed.wait()
            self._changed.clear()
            if self._silent:
                return
            meta = self.tree["metadata"]
            patch = status_patch(
                self.tree, self.inits, self.mains, host_ip=self.host_ip, pod_ip=self.pod_ip, now=self._clock.now(),
                waiting=next(iter(self._waiting.values()), ""),
            )  # fmt: skip
            try:
                self.tree = await self._client.patch(
                    PODS, meta["name"], patch, meta["namespace"], kind="strategic", subresource="status"
                )
            except StatusError as error:
                if error.code != 404:
                    raise
                return

    @property
    def phase(self) -> str:
        """The phase that its containers make."""
        return phase_of(self.tree, self.inits, self.mains)


def needs_claims(pod: Tree, claims: Mapping[str, Tree | None]) -> bool:
    """Whether a claim of the pod is missing, not allocated or not reserved for it. ``claims``: by the pod's names."""
    uid = pod["metadata"]["uid"]
    for claim in claims.values():
        status = (claim or {}).get("status") or {}
        if "allocation" not in status or all(user.get("uid") != uid for user in status.get("reservedFor") or ()):
            return True
    return False
