"""ReplicaSet and ReplicationController controllers: keep a number of identical pods, and count them in the status."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.client import Resource
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.adoption import Children, PartialFailure, call_all
from allotment.controllers.conditions import condition_of, with_condition, without_condition
from allotment.controllers.label_selectors import has_all
from allotment.controllers.pod_control import OwnPods
from allotment.controllers.pods import is_active, is_finished, is_ready, phase_of, pod_from, ready_for, restarts
from allotment.model.trees import Tree

#: Pods created or deleted in one sync; the rest follows in the next sync.
_BURST: Final = 500
#: Delay per pod before a set is counted again, or large sets would be counted continuously.
_SECONDS_PER_POD: Final = 5e-5

Key = tuple[str, str]


async def replica_sets(context: ProgramContext) -> None:
    """Run the ReplicaSet controller."""
    await _Replicas(context, REPLICA_SETS, "replicaset-controller").run()


async def replication_controllers(context: ProgramContext) -> None:
    """Run the ReplicationController controller."""
    await _Replicas(context, REPLICATION_CONTROLLERS, "replication-controller").run()


class _Replicas:
    def __init__(self, context: ProgramContext, resource: Resource, component: str) -> None:
        self._resource = resource
        self._client = context.client_for(component)
        self._clock = context.clock
        self._recorder = context.recorder(component)
        self._sets = context.caches.trees(resource)
        self._pods = context.caches.trees(PODS)
        self._children = Children(self._pods, self._client)
        self._own = OwnPods(self._pods, self._client, self._recorder)
        #: The status that this controller last wrote, by uid.
        self._written: dict[str, Tree] = {}
        self._by_uid = self._sets.index("uid", lambda item: (item.uid,))
        self._by_space = self._sets.index("namespace", lambda item: (item.namespace,))
        self._queue: WorkQueue[Key] = WorkQueue(
            resource.plural, self._sync, clock=context.clock, random=context.random, workers=16
        )

    async def run(self) -> None:
        await run_queues([self._queue], [(self._pods, self._pod_changed), (self._sets, self._set_changed)])

    def _set_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is None:
            if old is not None:
                self._written.pop(old.uid, None)
            return
        # Its own status writes need no sync; a status that another client wrote is replaced.
        foreign = old is not None and old.status != new.status != self._written.get(new.uid, new.status)
        if foreign or old is None or (old.spec, old.deleting, old.labels) != (new.spec, new.deleting, new.labels):
            self._queue.add(new.key)

    def _pod_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        owners = [owner for pod in (old, new) if pod is not None and (owner := pod.controller) is not None]
        if owners:
            uids = [owner["uid"] for owner in owners if owner["kind"] == self._resource.kind]
            if uids and (old is None or new is None or _relevant_state(old) != _relevant_state(new)):
                for found in (found for uid in uids for found in self._by_uid[uid]):
                    self._queue.add(found.key, after=self._children.count(found.uid) * _SECONDS_PER_POD)
        elif new is not None and (sets := self._by_space[new.namespace]):
            if old is None or old.labels != new.labels:
                for found in sets:
                    selector = found.spec.get("selector") or {}
                    labels = selector.get("matchLabels", selector) or {}
                    # Expressions are evaluated later; a pod that the labels exclude is no orphan of this set.
                    if has_all({k: v for k, v in labels.items() if isinstance(v, str)}, new.labels) or not labels:
                        self._queue.add(found.key)

    async def _sync(self, key: Key) -> float | None:
        owner = self._sets.item(*key)
        if owner is None:
            return None
        pods = await self._children.of(owner)
        active = [pod for pod in pods if is_active(pod)]
        missing = _wanted(owner) - len(active)
        failure: PartialFailure | None = None
        if not owner.deleting and missing:
            try:
                await (self._create(owner, missing) if missing > 0 else self._delete(owner, active, -missing))
            except PartialFailure as error:
                failure = error
            pods = [pod for pod in self._children.known(owner.uid) if not is_finished(pod)]
        else:
            pods = [pod for pod in pods if not is_finished(pod)]
        soon = await self._update_status(owner, pods, failure, missing)
        if failure is not None:
            raise failure.failure
        if abs(missing) > _BURST:
            return 0.0
        return soon

    async def _create(self, owner: CachedItem[Any], count: int) -> None:
        pod = pod_from(owner.spec["template"], owner.tree)
        await call_all([partial(self._own.create, owner, pod)] * min(count, _BURST), slow_start=True)

    async def _delete(self, owner: CachedItem[Any], active: Sequence[CachedItem[Any]], count: int) -> None:
        on_node: dict[str, int] = {}
        for pod in active:
            node = pod.spec.get("nodeName", "")
            on_node[node] = on_node.get(node, 0) + 1
        ranked = sorted(active, key=lambda pod: _deletion_order(pod, on_node[pod.spec.get("nodeName", "")]))
        await call_all([partial(self._own.delete, owner, pod) for pod in ranked[: min(count, _BURST)]])

    async def _update_status(
        self, owner: CachedItem[Any], pods: list[CachedItem[Any]], failure: PartialFailure | None, missing: int
    ) -> float | None:
        """Write the status if it changed. Returns the seconds until a pod becomes available."""
        labels = (owner.spec["template"].get("metadata") or {}).get("labels") or {}
        min_ready_seconds = owner.spec.get("minReadySeconds", 0)
        alive = [pod for pod in pods if not pod.deleting]
        ready = [pod for pod in alive if is_ready(pod)]
        waits = [ready_for(pod, min_ready_seconds, self._clock) for pod in ready]
        old = owner.status
        status: Tree = {"replicas": len(alive)}
        for field, count in (
            ("fullyLabeledReplicas", sum(has_all(labels, pod.labels) for pod in alive)),
            ("readyReplicas", len(ready)),
            ("availableReplicas", sum(wait <= 0 for wait in waits)),
        ):
            if count:
                status[field] = count
        if self._resource is REPLICA_SETS:
            status["terminatingReplicas"] = len(pods) - len(alive)
        if "generation" in owner.metadata:
            status["observedGeneration"] = owner.metadata["generation"]
        conditions = without_condition(old.get("conditions"), "ReplicaFailure")
        if failure is not None:
            reason = "FailedCreate" if missing > 0 else "FailedDelete"
            known = condition_of(old.get("conditions"), "ReplicaFailure")
            # The message names the pod, so it differs each time; keep the first one.
            text = known["message"] if known is not None and known["reason"] == reason else str(failure)
            conditions = with_condition(
                old.get("conditions"), "ReplicaFailure", "True", reason, text, now=self._clock.now()
            )
        if conditions:
            status["conditions"] = conditions
        self._written[owner.uid] = status
        if status != old:
            self._sets.record_write(
                await self._client.update(self._resource, {**owner.tree, "status": status}, subresource="status")
            )
        return min((wait for wait in waits if wait > 0), default=None)


def _wanted(owner: CachedItem[Any]) -> int:
    replicas = owner.spec.get("replicas")
    return 1 if replicas is None else int(replicas)


def _deletion_order(pod: CachedItem[Any], together: int) -> tuple[object, ...]:
    """Sort key for deletion: not running, low cost, colocated, restarted and young pods first."""
    cost = (pod.metadata.get("annotations") or {}).get("controller.kubernetes.io/pod-deletion-cost", "0")
    created = pod.metadata.get("creationTimestamp", "")
    return (
        bool(pod.spec.get("nodeName")),
        {"Pending": 0, "Unknown": 1}.get(phase_of(pod), 2),
        is_ready(pod),
        int(cost) if cost.lstrip("+-").isdecimal() else 0,
        -together,
        -restarts(pod),
        "".join(chr(0x10FFFF - ord(character)) for character in created),
        pod.name,
    )


def _relevant_state(pod: CachedItem[Any]) -> tuple[object, ...]:
    """The fields of a pod that affect a set."""
    metadata = pod.metadata
    return (pod.deleting, phase_of(pod), is_ready(pod), metadata.get("labels"), metadata.get("ownerReferences"))
