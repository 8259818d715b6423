"""Binds the volumes that were chosen for a pod, before the pod is bound to its node.

A volume is reserved for its claim, and a claim without volume names the node; the volume controller and the provisioner
of the class do the rest. As in Kubernetes, the binding of the pod follows when all its claims are bound.
"""

from __future__ import annotations

import asyncio
from typing import Final

from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import VOLUME_CLAIMS, VOLUMES
from allotment.cluster.shutdown import Shutdown, ShutdownStarted
from allotment.model.trees import Tree
from allotment.node_fit.volume_matching import SELECTED_NODE, annotations_of, is_fully_bound, reserved_for
from allotment.scheduler.attempt import NodeAssignment
from allotment.scheduler.binding.errors import BindError
from allotment.scheduler.idle_bindings import IdleBindings
from allotment.scheduler.pods import QueuedPod
from allotment.scheduler.volumes.cluster_volumes import ClusterVolumes, VolumeChoice

_PRE_BIND: Final = 'running PreBind plugin "VolumeBinding": '


class VolumeBinding:
    """Writes and waits for volumes, at most ``timeout`` seconds."""

    def __init__(
        self, client: Client, cluster: ClusterVolumes, clock: Clock, stopping: Shutdown, idle_bindings: IdleBindings,
        timeout: float,
    ) -> None:  # fmt: skip
        self._client = client
        self._cluster = cluster
        self._clock = clock
        self._stopping = stopping
        self._idle_bindings = idle_bindings
        self._timeout = timeout
        self._watchers: set[asyncio.Event] = set()

    def changed(self) -> None:
        """Wake the bindings that wait: a claim or volume has changed."""
        for watcher in self._watchers:
            watcher.set()

    def plan(self, chosen: NodeAssignment) -> None:
        """Book a decision, so that the next one sees it."""
        self._cluster.plan(chosen.volumes, chosen.node)

    def end_plan(self, chosen: NodeAssignment) -> None:
        """Forget a decision that is written or reverted."""
        self._cluster.end_plan(chosen.volumes)

    async def bind(self, pod: QueuedPod, chosen: NodeAssignment) -> None:
        """Bind the volumes of a decision. Raises BindError, on shutdown ShutdownStarted."""
        choice = chosen.volumes
        if not choice.bindings and not choice.provisions:
            return
        try:
            for volume, claim in choice.bindings:
                self._cluster.record_volume(await self._client.update(VOLUMES, reserved_for(volume, claim)))
            for claim in choice.provisions:
                await self._select_node(claim, chosen.node)
        except (StatusError, Unreachable) as error:
            raise BindError(f"{_PRE_BIND}{error}") from error
        with self._idle_bindings.idle():
            await self._wait(pod, chosen)

    async def _select_node(self, claim: Tree, node: str) -> None:
        """Order a volume for a claim that is used on a node."""
        current = self._cluster.written_claim(claim) or claim
        annotations = annotations_of(current)
        if annotations.get(SELECTED_NODE) == node:
            return
        metadata = {**current["metadata"], "annotations": {**annotations, SELECTED_NODE: node}}
        self._cluster.record_claim(await self._client.update(VOLUME_CLAIMS, {**current, "metadata": metadata}))

    async def _wait(self, pod: QueuedPod, chosen: NodeAssignment) -> None:
        """Wait until the claims are bound."""
        watcher = asyncio.Event()
        self._watchers.add(watcher)
        end = self._clock.seconds() + self._timeout
        try:
            with self._stopping.callback(watcher.set):
                while not self._are_bound(chosen.volumes, chosen.node):
                    if not self._cluster.has_pod(pod):
                        raise BindError(f"{_PRE_BIND}binding volumes: pod does not exist any more")
                    if self._stopping.started:
                        raise ShutdownStarted
                    if (left := end - self._clock.seconds()) <= 0:
                        raise BindError(f"{_PRE_BIND}binding volumes: context deadline exceeded")
                    alarm = self._clock.later(left, watcher.set)
                    try:
                        await watcher.wait()
                    finally:
                        alarm.cancel()
                    watcher.clear()
        finally:
            self._watchers.discard(watcher)

    def _are_bound(self, choice: VolumeChoice, node: str) -> bool:
        """Whether all claims are bound. Raises BindError if one of them cannot be bound any more."""
        bound = True
        for volume, claim in choice.bindings:
            name = volume["metadata"]["name"]
            current = self._cluster.written_volume(name)
            if current is None or not (current["spec"].get("claimRef") or {}).get("uid"):
                raise BindError(f'{_PRE_BIND}binding volumes: ClaimRef got reset for pv "{name}"')
            written = self._cluster.written_claim(claim)
            if written is None:
                where = f"{claim['metadata'].get('namespace')}/{claim['metadata']['name']}"
                raise BindError(f'{_PRE_BIND}binding volumes: could not find v1.PersistentVolumeClaim "{where}"')
            bound = bound and is_fully_bound(written)
        for claim in choice.provisions:
            written, name = self._cluster.written_claim(claim), claim["metadata"]["name"]
            if written is None or SELECTED_NODE not in annotations_of(written):
                raise BindError(f'{_PRE_BIND}binding volumes: selectedNode annotation reset for PVC "{name}"')
            if annotations_of(written)[SELECTED_NODE] != node:
                raise BindError(f'{_PRE_BIND}binding volumes: provisioning failed for PVC "{name}"')
            known = self._cluster.written_volume(written["spec"].get("volumeName") or "")
            bound = bound and known is not None and is_fully_bound(written)
        return bound
