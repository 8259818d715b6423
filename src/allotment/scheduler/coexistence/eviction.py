"""Evicts a bound pod whose devices another scheduler allocated as well, unless it has started.

Only the other scheduler could revert its own decision, and it does not check. Of two pods on one device the one that
has not started loses nothing but its node: it is deleted, like a preempted pod, and its controller creates it again. A
pod with a container that has started keeps running: stopping it would lose work, and the device is already in use
twice.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.instrumentation import Instrumentation, WorkRecord
from allotment.cluster.recorder import Recorder
from allotment.cluster.resources import CLAIMS, PODS
from allotment.model.trees import Tree
from allotment.scheduler.claim_ledger import CachedClaim
from allotment.scheduler.coexistence.contention import devices_of
from allotment.scheduler.coexistence.contested_claims import ContestedClaims

_log = logging.getLogger(__name__)

REASON: Final = "DeviceContested"
#: Attempts for a pod that changes concurrently.
_TRIES: Final = 5


class ContestedPodEvictor:
    """Evicts this scheduler's pods, or reports why not."""

    def __init__(
        self, client: Client, clock: Clock, recorder: Recorder, observing: Instrumentation, contested: ContestedClaims
    ) -> None:
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._observing = observing
        self._contested = contested
        self._in_progress: set[str] = set()

    async def evict(self, pod: CachedItem[Tree], claim: CachedClaim, text: str) -> None:
        """Delete a pod that has not started; ``text`` names the device, its claim and the other holder."""
        if pod.uid in self._in_progress:
            return
        self._in_progress.add(pod.uid)
        start_time = time.perf_counter()
        try:
            if not await self._still_holds(claim):
                return
            gone = await self._delete(pod, claim, text)
        finally:
            self._in_progress.discard(pod.uid)
        outcome = "the pod has not started and is evicted" if gone else "the pod has started and keeps running"
        _log.error("pod %s/%s: %s; %s", pod.namespace, pod.name, text, outcome)
        self._recorder.event(pod.tree, "Warning", REASON, f"{text}; {outcome}", "Yielding")
        self._observing.record(
            WorkRecord(
                "contested", pod.uid, time.time(), time.perf_counter() - start_time, "given up" if gone else "kept",
                {"text": text},
            )
        )  # fmt: skip

    async def _still_holds(self, claim: CachedClaim) -> bool:
        """Whether a claim still has its devices: after an interruption changes of several claims arrive one by one."""
        try:
            live = await self._client.get(CLAIMS, claim.key.name, claim.key.namespace)
        except StatusError as error:
            return error.code != 404
        except Unreachable:
            return True
        return live["metadata"].get("uid") == claim.uid and devices_of(live) == devices_of(claim.tree)

    async def _delete(self, pod: CachedItem[Tree], claim: CachedClaim, text: str) -> bool:
        for _ in range(_TRIES):
            try:
                tree = await self._client.get(PODS, pod.name, pod.namespace)
                if tree["metadata"].get("uid") != pod.uid or "deletionTimestamp" in tree["metadata"]:
                    return True
                if has_started(tree):
                    return False
                condition = {
                    "type": "DisruptionTarget", "status": "True", "reason": REASON, "message": text,
                    "lastProbeTime": None, "lastTransitionTime": self._clock.now(),
                }  # fmt: skip
                # With the resourceVersion, so that a container that starts in the meantime causes a conflict.
                metadata = {"uid": pod.uid, "resourceVersion": tree["metadata"]["resourceVersion"]}
                patch = {"metadata": metadata, "status": {"conditions": [condition]}}
                await self._client.patch(PODS, pod.name, patch, pod.namespace, kind="strategic", subresource="status")
                # If its claim were freed as well, the other scheduler would consider the device free.
                if len(claim.users) == 1:
                    await self._contested.detach(claim)
                await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
                return True
            except StatusError as error:
                if error.code == 404:
                    return True
                if error.code != 409:
                    _log.warning("pod %s/%s could not be evicted: %s", pod.namespace, pod.name, error)
                    return False
            except Unreachable:
                await self._clock.sleep(0.5)
        return False


def has_started(pod: Tree) -> bool:
    """Whether any container of a pod runs or has run."""
    status = pod.get("status") or {}
    if status.get("phase") not in (None, "", "Pending"):
        return True
    containers = (
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
        *(status.get("ephemeralContainerStatuses") or ()),
    )
    return any(
        "running" in state or "terminated" in state
        for container in containers
        for state in (container.get("state") or {}, container.get("lastState") or {})
    )
