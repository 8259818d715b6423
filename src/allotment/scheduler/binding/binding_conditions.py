"""Waits for devices that must become ready before their pod is bound (binding conditions, KEP-5007)."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict

from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.recorder import Recorder
from allotment.cluster.resources import PODS
from allotment.cluster.shutdown import Shutdown, ShutdownStarted
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.model.trees import Tree
from allotment.scheduler import device_readiness
from allotment.scheduler.attempt import NodeAssignment
from allotment.scheduler.binding.errors import PRE_BIND, DeviceBindingError
from allotment.scheduler.claim_ledger import ClaimLedger
from allotment.scheduler.idle_bindings import IdleBindings
from allotment.scheduler.pods import QueuedPod


class BindingConditionWaiter:
    """Waits for devices, at most ``timeout`` seconds."""

    def __init__(
        self,
        client: Client,
        ledger: ClaimLedger,
        features: Features,
        clock: Clock,
        recorder: Recorder,
        stopping: Shutdown,
        idle_bindings: IdleBindings,
        timeout: float,
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._conditions = features.enabled("DRADeviceBindingConditions")
        self._clock = clock
        self._recorder = recorder
        self._stopping = stopping
        self._idle_bindings = idle_bindings
        self._timeout = timeout
        self._watchers: defaultdict[ObjectKey, set[asyncio.Event]] = defaultdict(set)

    def changed(self, claim: ObjectKey) -> None:
        """Wake the bindings that wait for a claim's devices."""
        for watcher in self._watchers.get(claim, ()):
            watcher.set()

    async def wait(self, pod: QueuedPod, chosen: NodeAssignment) -> None:
        """Wait until the devices of all claims are ready. Raises DeviceBindingError, on shutdown ShutdownStarted."""
        keys = [*(claim.key for claim, _ in chosen.allocations), *(claim.key for claim in chosen.already_allocated)]
        keys = [key for key in keys if device_readiness.has_conditions(self._tree(key))]
        if not keys or not self._conditions:
            return
        text = f"waiting for binding conditions for device on node {chosen.node}"
        self._recorder.event(pod.tree, "Normal", "BindingConditionsPending", text, "Scheduling")
        await self._nominate(pod, chosen.node)
        started = self._clock.seconds()
        with self._idle_bindings.idle():
            for key in keys:
                await self._wait_for(key, started)

    async def _wait_for(self, key: ObjectKey, started: float) -> None:
        watcher = asyncio.Event()
        self._watchers[key].add(watcher)
        try:
            with self._stopping.callback(watcher.set):
                while True:
                    watcher.clear()
                    state = device_readiness.of(self._tree(key))
                    if state.failure:
                        self._give_up(key)
                        raise DeviceBindingError(f"{PRE_BIND}device binding failed: claim={key.name}, {state.failure}")
                    if state.ready:
                        return
                    left = self._timeout - (self._clock.seconds() - started)
                    if left <= 0:
                        self._give_up(key)
                        raise DeviceBindingError(f"{PRE_BIND}device binding timeout: claim={key.name}")
                    if self._stopping.started:
                        raise ShutdownStarted
                    alarm = self._clock.later(left, watcher.set)
                    try:
                        await watcher.wait()
                    finally:
                        alarm.cancel()
        finally:
            self._watchers[key].discard(watcher)
            if not self._watchers[key]:
                del self._watchers[key]

    async def _nominate(self, pod: QueuedPod, node: str) -> None:
        """Set the pod's nominated node for the duration of the wait; errors are ignored."""
        patch = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}}
        with contextlib.suppress(StatusError, Unreachable):
            await self._client.patch(PODS, pod.key.name, patch, pod.key.namespace, subresource="status")

    def _give_up(self, key: ObjectKey) -> None:
        known = self._ledger.known.get(key)
        if known is not None:
            self._ledger.unusable.add(known.uid)

    def _tree(self, key: ObjectKey) -> Tree:
        known = self._ledger.known.get(key)
        return known.tree if known is not None else {}
