"""Devices that have to get ready before their pod may be bound (binding conditions, KEP-5007)."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict

from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.recorder import Recorder
from allotment.cluster.resources import PODS
from allotment.cluster.shutdown import Left, Stopping
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.model.trees import Tree
from allotment.scheduler import device_readiness
from allotment.scheduler.attempt import Chosen
from allotment.scheduler.binding.errors import PRE_BIND, NotBound
from allotment.scheduler.claim_ledger import Ledger
from allotment.scheduler.idle_bindings import Resting
from allotment.scheduler.pods import WaitingPod


class Readying:
    """Waits for devices, for ``timeout`` seconds at most."""

    def __init__(
        self, client: Client, ledger: Ledger, features: Features, clock: Clock, recorder: Recorder, stopping: Stopping,
        resting: Resting, timeout: float,
    ) -> None:  # fmt: skip
        self._client = client
        self._ledger = ledger
        self._conditions = features.enabled("DRADeviceBindingConditions")
        self._clock = clock
        self._recorder = recorder
        self._stopping = stopping
        self._resting = resting
        self._timeout = timeout
        self._watchers: defaultdict[ObjectKey, set[asyncio.Event]] = defaultdict(set)

    def changed(self, claim: ObjectKey) -> None:
        """A claim has changed: whoever waits for its devices looks again."""
        for watcher in self._watchers.get(claim, ()):
            watcher.set()

    async def wait(self, pod: WaitingPod, chosen: Chosen) -> None:
        """Until the devices of all claims are ready. Raises NotBound, and Left where it is to stop."""
        keys = [*(claim.key for claim, _ in chosen.allocations), *(claim.key for claim in chosen.allocated)]
        keys = [key for key in keys if device_readiness.has_conditions(self._tree(key))]
        if not keys or not self._conditions:
            return
        text = f"waiting for binding conditions for device on node {chosen.node}"
        self._recorder.event(pod.tree, "Normal", "BindingConditionsPending", text, "Scheduling")
        await self._nominate(pod, chosen.node)
        began = self._clock.seconds()
        with self._resting.one():
            for key in keys:
                await self._wait_for(key, began)

    async def _wait_for(self, key: ObjectKey, began: float) -> None:
        watcher = asyncio.Event()
        self._watchers[key].add(watcher)
        try:
            with self._stopping.telling(watcher.set):
                while True:
                    watcher.clear()
                    state = device_readiness.of(self._tree(key))
                    if state.failure:
                        self._give_up(key)
                        raise NotBound(f"{PRE_BIND}device binding failed: claim={key.name}, {state.failure}")
                    if state.ready:
                        return
                    left = self._timeout - (self._clock.seconds() - began)
                    if left <= 0:
                        self._give_up(key)
                        raise NotBound(f"{PRE_BIND}device binding timeout: claim={key.name}")
                    if self._stopping.begun:
                        raise Left
                    alarm = self._clock.later(left, watcher.set)
                    try:
                        await watcher.wait()
                    finally:
                        alarm.cancel()
        finally:
            self._watchers[key].discard(watcher)
            if not self._watchers[key]:
                del self._watchers[key]

    async def _nominate(self, pod: WaitingPod, node: str) -> None:
        """Say where the pod is going while it takes long; nobody depends on it."""
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
