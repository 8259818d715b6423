"""Pod garbage collector: deletes orphaned pods, unscheduled terminating pods, and old finished ones.

Such a pod is first marked Failed, so that its consumers (a Job, a claim) see that it finished, and then deleted without
a grace period.
"""

from __future__ import annotations

from typing import Any, Final

from allotment.cluster.cached_item import CachedItem, by_node
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import NODES, PODS
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.conditions import with_condition
from allotment.controllers.pods import is_finished

#: Delay before pods of a missing node are deleted: a node may be replaced under its name (upstream: 40 s).
_QUARANTINE_SECONDS: Final = 40.0
_MOST_FINISHED: Final = 12_500

Key = tuple[str, str]


async def pod_garbage(context: ProgramContext) -> None:
    """Run the pod garbage collector."""
    await _PodGarbage(context).run()


class _PodGarbage:
    def __init__(self, context: ProgramContext) -> None:
        self._client = context.client_for("pod-garbage-collector")
        self._clock = context.clock
        self._pods = context.caches.trees(PODS)
        self._nodes = context.caches.trees(NODES)
        self._on_node = self._pods.index("node", by_node)
        self._finished = self._pods.index("finished", lambda pod: (True,) if is_finished(pod) else ())
        self._queue: WorkQueue[Key] = WorkQueue("pod-garbage", self._sync, clock=context.clock, random=context.random)

    async def run(self) -> None:
        await self._nodes.synced.wait()
        await run_queues([self._queue], [(self._pods, self._pod_changed), (self._nodes, self._node_changed)])

    def _pod_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is None:
            return
        node = new.spec.get("nodeName")
        if node:
            if (old is None or not old.spec.get("nodeName")) and self._nodes.item("", node) is None:
                self._queue.add(new.key, after=_QUARANTINE_SECONDS)
        elif new.deleting and (old is None or not old.deleting):
            self._queue.add(new.key)
        if self._finished.count(True) > _MOST_FINISHED and is_finished(new):
            oldest = min(self._finished[True], key=lambda pod: pod.metadata.get("creationTimestamp", ""))
            self._queue.add(oldest.key)

    def _node_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is None and old is not None:
            for pod in self._on_node[old.name]:
                self._queue.add(pod.key, after=_QUARANTINE_SECONDS)

    async def _sync(self, key: Key) -> None:
        pod = self._pods.item(*key)
        if pod is None:
            return
        node = pod.spec.get("nodeName")
        too_many = self._finished.count(True) > _MOST_FINISHED and is_finished(pod)
        if node:
            if self._nodes.item("", node) is None and not await self._node_exists(node):
                await self._fail_and_delete(pod, "PodGC: node no longer exists")
            elif too_many:
                await self._delete(pod)
        elif pod.deleting:
            await self._fail_and_delete(pod, "")
        elif too_many:
            await self._delete(pod)

    async def _node_exists(self, node: str) -> bool:
        """Read the node from the API: a pod may be in the cache before its node is."""
        try:
            await self._client.get(NODES, node)
        except StatusError as error:
            if error.code == 404:
                return False
            raise
        return True

    async def _fail_and_delete(self, pod: CachedItem[Any], why: str) -> None:
        if not is_finished(pod):
            status = {**pod.status, "phase": "Failed"}
            if why:
                status["conditions"] = with_condition(
                    pod.status.get("conditions"), "DisruptionTarget", "True", "DeletionByPodGC", why,
                    now=self._clock.now(), lastProbeTime=None,
                )  # fmt: skip
            try:
                answer = await self._client.update(PODS, {**pod.tree, "status": status}, subresource="status")
            except StatusError as error:
                if error.code == 404:
                    return
                raise
            self._pods.record_write(answer)
        await self._delete(pod)

    async def _delete(self, pod: CachedItem[Any]) -> None:
        try:
            await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_seconds=0)
        except StatusError as error:
            if error.code != 404:
                raise
