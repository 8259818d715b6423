"""Disruption controller: the allowed disruptions of each PodDisruptionBudget, which the eviction API reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from allotment.cluster.cached_item import CachedItem, by_namespace
from allotment.cluster.client import Resource
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    JOBS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.conditions import with_condition
from allotment.controllers.label_selectors import selects
from allotment.controllers.pods import is_finished, is_ready
from allotment.controllers.rollout import scaled
from allotment.model.trees import Tree

#: A granted eviction that is not observed within this time expires.
_DISRUPTED_SECONDS: Final = 120.0
_BUNCH_SECONDS: Final = 0.1
_SCALES: Final[dict[str, Resource]] = {
    resource.kind: resource for resource in (REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS, DEPLOYMENTS)
}

Key = tuple[str, str]


async def disruption(context: ProgramContext) -> None:
    """Run the disruption controller."""
    await _Disruption(context).run()


class _Disruption:
    def __init__(self, context: ProgramContext) -> None:
        self._client = context.client_for("disruption-controller")
        self._clock = context.clock
        self._recorder = context.recorder("controllermanager")
        self._budgets = context.caches.trees(DISRUPTION_BUDGETS)
        self._pods = context.caches.trees(PODS)
        self._owners = {kind: context.caches.trees(resource) for kind, resource in _SCALES.items()}
        self._in_space = self._budgets.index("namespace", by_namespace)
        self._pods_in = self._pods.index("namespace", by_namespace)
        self._queue: WorkQueue[Key] = WorkQueue("disruption", self._sync, clock=context.clock, random=context.random)

    async def run(self) -> None:
        for cache in self._owners.values():
            await cache.synced.wait()
        await run_queues([self._queue], [(self._pods, self._pod_changed), (self._budgets, self._changed)])

    def _changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None:
            self._queue.add(new.key)

    def _pod_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        pod = new or old
        assert pod is not None
        for budget in self._in_space[pod.namespace]:
            if any(pod is not None and selects(budget.spec.get("selector"), pod.labels) for pod in (old, new)):
                self._queue.add(budget.key, after=_BUNCH_SECONDS)

    async def _sync(self, key: Key) -> float | None:
        budget = self._budgets.item(*key)
        if budget is None or budget.deleting:
            return None
        selector = budget.spec.get("selector")
        pods = [
            pod for pod in self._pods_in[budget.namespace] if not is_finished(pod) and selects(selector, pod.labels)
        ]
        if not pods:
            self._recorder.event(budget.tree, "Normal", "NoPods", "No matching pods found")
        expected, desired = self._expected_counts(budget, pods)
        disrupted, wait = self._disrupted(budget, pods)
        healthy = sum(is_ready(pod) and not pod.deleting and pod.name not in disrupted for pod in pods)
        allowed = max(healthy - desired, 0) if expected > 0 else 0
        enough = allowed > 0
        generation = budget.metadata.get("generation", 0)
        status: Tree = {
            "observedGeneration": generation,
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": with_condition(
                budget.status.get("conditions"), "DisruptionAllowed", "True" if enough else "False",
                "SufficientPods" if enough else "InsufficientPods", now=self._clock.now(),
                observedGeneration=generation, message="",
            ),
        }  # fmt: skip
        if disrupted:
            status["disruptedPods"] = disrupted
        if status != budget.status:
            tree = {**budget.tree, "status": status}
            self._budgets.record_write(await self._client.update(DISRUPTION_BUDGETS, tree, subresource="status"))
        return wait

    def _disrupted(
        self, budget: CachedItem[Any], pods: Sequence[CachedItem[Any]]
    ) -> tuple[dict[str, str], float | None]:
        """Pods with a granted eviction that is not yet observed, and when the first of them expires."""
        kept: dict[str, str] = {}
        waits: list[float] = []
        existing = {pod.name for pod in pods if not pod.deleting}
        for name, since in (budget.status.get("disruptedPods") or {}).items():
            left = self._clock.left(since, _DISRUPTED_SECONDS)
            if name in existing and left > 0:
                kept[name] = since
                waits.append(left)
        return kept, min(waits, default=None)

    def _expected_counts(self, budget: CachedItem[Any], pods: Sequence[CachedItem[Any]]) -> tuple[int, int]:
        """The expected number of pods, and the number that must be healthy."""
        most = budget.spec.get("maxUnavailable")
        least = budget.spec.get("minAvailable")
        if most is not None:
            expected = self._scale(pods)
            return expected, max(expected - scaled(most, expected, up=True), 0)
        if isinstance(least, str):
            expected = self._scale(pods)
            return expected, scaled(least, expected, up=True)
        return len(pods), 0 if least is None else int(least)

    def _scale(self, pods: Sequence[CachedItem[Any]]) -> int:
        """The total desired replicas of the pods' controllers; a pod without one counts as one."""
        wanted: dict[str, int] = {}
        for pod in pods:
            owner = pod.controller
            if owner is None:
                wanted[pod.uid] = 1
                continue
            item = self._owner(pod, owner)
            # Only a Deployment controls controllers of pods. Owners may form a cycle, so they are not followed further.
            above = item.controller if item is not None else None
            if item is not None and above is not None and above["kind"] == DEPLOYMENTS.kind:
                item = self._owner(item, above) or item
            if item is not None:
                replicas = item.spec.get("replicas")
                wanted[item.uid] = 1 if replicas is None else replicas
            elif owner["kind"] == JOBS.kind:
                wanted[pod.uid] = 1
        return sum(wanted.values())

    def _owner(self, item: CachedItem[Any], owner: Tree) -> CachedItem[Any] | None:
        cache = self._owners.get(owner["kind"])
        found = cache.item(item.namespace, owner["name"]) if cache else None
        return found if found is not None and found.uid == owner["uid"] else None
