"""A pod that was bound when another scheduler gave its devices away as well: it gives way, if it has not started.

Nobody can take the rival's decision back but the rival, which does not look. Of two pods on one device the one that has
done nothing yet loses nothing but its place: it is deleted, as a preempted one is, and whoever made it makes it anew. A
pod with a container that has started keeps running: to stop it would cost work, and the device has two users already.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from allotment.cluster.cached_item import Item
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.instrumentation import Done, Observing
from allotment.cluster.recorder import Recorder
from allotment.cluster.resources import CLAIMS, PODS
from allotment.model.trees import Tree
from allotment.scheduler.claim_ledger import KnownClaim
from allotment.scheduler.coexistence.contention import devices_of
from allotment.scheduler.coexistence.contested_claims import Guards

_log = logging.getLogger(__name__)

REASON: Final = "DeviceContested"
#: How often a pod that changes meanwhile is looked at again.
_TRIES: Final = 5


class Yielding:
    """Gives pods of ours up, or says why not."""

    def __init__(self, client: Client, clock: Clock, recorder: Recorder, observing: Observing, guards: Guards) -> None:
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._observing = observing
        self._guards = guards
        self._at_it: set[str] = set()

    async def give_way(self, pod: Item[Tree], claim: KnownClaim, text: str) -> None:
        """Delete a pod that has not started; ``text`` says which device of which claim, and who else has it."""
        if pod.uid in self._at_it:
            return
        self._at_it.add(pod.uid)
        began = time.perf_counter()
        try:
            if not await self._has(claim):
                return
            gone = await self._delete(pod, claim, text)
        finally:
            self._at_it.discard(pod.uid)
        what = "it has not started and gives way" if gone else "it has started and is kept"
        _log.error("pod %s/%s: %s; %s", pod.namespace, pod.name, text, what)
        self._recorder.event(pod.tree, "Warning", REASON, f"{text}; {what}", "Yielding")
        self._observing.tell(
            Done(
                "contested", pod.uid, time.time(), time.perf_counter() - began, "given up" if gone else "kept",
                {"text": text},
            )
        )  # fmt: skip

    async def _has(self, claim: KnownClaim) -> bool:
        """Whether a claim has its devices still: what was missed for a while is heard of one after the other."""
        try:
            live = await self._client.get(CLAIMS, claim.key.name, claim.key.namespace)
        except StatusError as error:
            return error.code != 404
        except Unreachable:
            return True
        return live["metadata"].get("uid") == claim.uid and devices_of(live) == devices_of(claim.tree)

    async def _delete(self, pod: Item[Tree], claim: KnownClaim, text: str) -> bool:
        for _ in range(_TRIES):
            try:
                tree = await self._client.get(PODS, pod.name, pod.namespace)
                if tree["metadata"].get("uid") != pod.uid or "deletionTimestamp" in tree["metadata"]:
                    return True
                if started(tree):
                    return False
                condition = {
                    "type": "DisruptionTarget", "status": "True", "reason": REASON, "message": text,
                    "lastProbeTime": None, "lastTransitionTime": self._clock.now(),
                }  # fmt: skip
                # With the revision, so that a container that starts meanwhile is a conflict.
                metadata = {"uid": pod.uid, "resourceVersion": tree["metadata"]["resourceVersion"]}
                patch = {"metadata": metadata, "status": {"conditions": [condition]}}
                await self._client.patch(PODS, pod.name, patch, pod.namespace, kind="strategic", subresource="status")
                # Were its claim freed with it, the rival would take the device for free.
                if len(claim.users) == 1:
                    await self._guards.set_aside(claim)
                await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
                return True
            except StatusError as error:
                if error.code == 404:
                    return True
                if error.code != 409:
                    _log.warning("pod %s/%s could not be given up: %s", pod.namespace, pod.name, error)
                    return False
            except Unreachable:
                await self._clock.sleep(0.5)
        return False


def started(pod: Tree) -> bool:
    """Whether any container of a pod runs, or has run."""
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
