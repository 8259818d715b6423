"""DaemonSet controller: one pod on each eligible node, and rolling updates within the allowed bounds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple

from allotment.cluster.backoff import Backoff
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.clock import Clock
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import DAEMON_SETS, NODES, PODS
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.adoption import Children, PartialFailure, call_all
from allotment.controllers.daemon_placement import NodeFit, fit_node, node_of, with_node_affinity
from allotment.controllers.pod_control import OwnPods
from allotment.controllers.pods import is_finished, is_ready, phase_of, pod_from, ready_for
from allotment.controllers.revisions import HASH, Revisions, template_of
from allotment.controllers.rollout import scaled
from allotment.model.trees import Tree

_GENERATION: Final = "pod-template-generation"
_SECONDS_PER_POD: Final = 5e-5

Key = tuple[str, str]


class _View(NamedTuple):
    """A snapshot of a DaemonSet: the eligibility of each node, and the pods on it."""

    owner: CachedItem[Any]
    fits: dict[str, NodeFit]
    on: dict[str, list[CachedItem[Any]]]
    digest: str


async def daemon_sets(context: ProgramContext) -> None:
    """Run the DaemonSet controller."""
    await _DaemonSets(context).run()


class _DaemonSets:
    def __init__(self, context: ProgramContext) -> None:
        self._client = context.client_for("daemon-set-controller")
        self._clock = context.clock
        self._recorder = context.recorder("daemonset-controller")
        self._sets = context.caches.trees(DAEMON_SETS)
        self._nodes = context.caches.trees(NODES)
        self._pods = context.caches.trees(PODS)
        self._children = Children(self._pods, self._client)
        self._own = OwnPods(self._pods, self._client, self._recorder)
        self._revisions = Revisions(context, self._client, HASH)
        self._failed = FailedDaemonBackoff(context.clock, context.random)
        self._by_uid = self._sets.index("uid", lambda item: (item.uid,))
        self._queue: WorkQueue[Key] = WorkQueue("daemonsets", self._sync, clock=context.clock, random=context.random)

    async def run(self) -> None:
        await self._revisions.cache.synced.wait()
        await run_queues(
            [self._queue],
            [(self._nodes, self._node_changed), (self._pods, self._pod_changed), (self._sets, self._changed)],
        )

    def _changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None:
            self._queue.add(new.key)
        elif old is not None:
            self._failed.forget(old.uid)

    def _pod_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        for pod in (old, new):
            owner = pod.controller if pod else None
            if owner is not None and owner["kind"] == "DaemonSet":
                for found in self._by_uid[owner["uid"]]:
                    self._queue.add(found.key, after=self._children.count(found.uid) * _SECONDS_PER_POD)

    def _node_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if old is not None and new is not None:
            # Heartbeats do not change eligibility.
            if old.labels == new.labels and old.spec.get("taints") == new.spec.get("taints"):
                return
        for found in self._sets.items():
            self._queue.add(found.key, after=len(self._nodes) * _SECONDS_PER_POD)

    async def _sync(self, key: Key) -> float | None:
        owner = self._sets.item(*key)
        if owner is None or owner.deleting:
            return None
        if not owner.spec.get("selector"):
            text = "This daemon set is selecting all pods. A non-empty selector is required."
            self._recorder.event(owner.tree, "Warning", "SelectingAll", text)
            return None
        pods = await self._children.of(owner)
        revision = await self._revisions.newest(owner)
        view = self._view(owner, pods, self._revisions.digest_of(revision))
        failure: PartialFailure | None = None
        later: float | None = None
        try:
            later = await self._place(view, template_of(revision))
            view = self._view(owner, self._children.known(owner.uid), view.digest)
            await self._roll(view)
        except PartialFailure as error:
            failure = error
        pods = list(self._children.known(owner.uid))
        wait = await self._update_status(self._view(owner, pods, view.digest))
        digests = {pod.labels.get(HASH) for pod in pods}
        used = {
            revision.name for revision in self._revisions.of(owner) if self._revisions.digest_of(revision) in digests
        }
        await self._revisions.forget(owner, {*used, revision.name})
        if failure is not None:
            raise failure.failure
        return min((seconds for seconds in (wait, later) if seconds is not None), default=None)

    def _view(self, owner: CachedItem[Any], pods: Sequence[CachedItem[Any]], digest: str) -> _View:
        spec = owner.spec["template"].get("spec") or {}
        on: dict[str, list[CachedItem[Any]]] = {}
        for pod in pods:
            on.setdefault(node_of(pod), []).append(pod)
        return _View(owner, {node.name: fit_node(spec, node) for node in self._nodes.items()}, on, digest)

    async def _place(self, view: _View, template: Tree) -> float | None:
        """Create missing pods and delete unwanted ones. Returns the seconds until failed pods are retried."""
        surplus: list[CachedItem[Any]] = []
        waits: list[float] = []
        missing: list[str] = []
        surge = self._bounds(view)[0]
        for node, wanted in view.fits.items():
            pods = view.on.get(node, ())
            failed = [pod for pod in pods if phase_of(pod) == "Failed" and not pod.deleting]
            alive = [pod for pod in pods if not pod.deleting and not is_finished(pod)]
            wait = self._failed.seconds_left(view.owner.uid, node) if failed and wanted.stay else 0.0
            if wait > 0:
                waits.append(wait)
            else:
                surplus += failed
            if not wanted.stay:
                surplus += alive
            elif not alive and wanted.start and wait <= 0 and not any(pod.deleting for pod in pods):
                missing.append(node)
            elif len(alive) > 1 and not surge:
                surplus += sorted(alive, key=lambda pod: pod.metadata.get("creationTimestamp", ""))[1:]
        for node, pods in view.on.items():
            if node not in view.fits:
                surplus += [pod for pod in pods if not pod.deleting]
        await call_all([partial(self._delete, view.owner, pod) for pod in surplus])
        made = self._pod(view, template)
        await call_all([partial(self._create, view.owner, made, node) for node in missing], slow_start=True)
        return min(waits, default=None)

    def _pod(self, view: _View, template: Tree) -> Tree:
        labels = {HASH: view.digest}
        generation = (view.owner.metadata.get("annotations") or {}).get("deprecated.daemonset.template.generation")
        if generation:
            labels[_GENERATION] = generation
        return pod_from(template, view.owner.tree, labels=labels)

    def _bounds(self, view: _View) -> tuple[int, int]:
        """The surge and unavailable bounds of a rolling update, in pods."""
        strategy = view.owner.spec.get("updateStrategy") or {}
        rolling = strategy.get("rollingUpdate") or {}
        wanted = sum(fit.start for fit in view.fits.values())
        surge = scaled(rolling.get("maxSurge") or 0, wanted, up=True)
        unavailable = rolling.get("maxUnavailable")
        short = scaled(1 if unavailable is None else unavailable, wanted, up=True)
        return surge, short if short or surge else 1

    async def _roll(self, view: _View) -> None:
        if (view.owner.spec.get("updateStrategy") or {}).get("type") == "OnDelete":
            return
        surge, short = self._bounds(view)
        template = view.owner.spec["template"]
        broken: list[CachedItem[Any]] = []
        old: list[CachedItem[Any]] = []
        doubled: list[str] = []
        unavailable = 0
        for node, wanted in view.fits.items():
            if not wanted.start:
                continue
            alive = [pod for pod in view.on.get(node, ()) if not pod.deleting and not is_finished(pod)]
            new = [pod for pod in alive if pod.labels.get(HASH) == view.digest]
            others = [pod for pod in alive if pod.labels.get(HASH) != view.digest]
            is_available = any(self._is_available(view, pod) for pod in alive)
            unavailable += not is_available
            if not others:
                continue
            if not is_available:
                broken += others
            elif surge:
                if any(self._is_available(view, pod) for pod in new):
                    await call_all([partial(self._delete, view.owner, pod) for pod in others])
                elif not new:
                    doubled.append(node)
            else:
                old += others
        if surge:
            running = sum(1 for pods in view.on.values() if len([pod for pod in pods if not pod.deleting]) > 1)
            made = self._pod(view, template)
            nodes = doubled[: max(surge - running, 0)]
            await call_all([partial(self._create, view.owner, made, node) for node in nodes], slow_start=True)
        # Unavailable pods are deleted regardless of the budget.
        room = max(short - unavailable, 0)
        await call_all([partial(self._delete, view.owner, pod) for pod in (*broken, *old[:room])])

    def _is_available(self, view: _View, pod: CachedItem[Any]) -> bool:
        return is_ready(pod) and ready_for(pod, view.owner.spec.get("minReadySeconds", 0), self._clock) <= 0

    async def _create(self, owner: CachedItem[Any], pod: Tree, node: str) -> None:
        await self._own.create(owner, {**pod, "spec": with_node_affinity(pod["spec"], node)})

    async def _delete(self, owner: CachedItem[Any], pod: CachedItem[Any]) -> None:
        if phase_of(pod) == "Failed":
            text = f"Found failed daemon pod {pod.namespace}/{pod.name} on node {node_of(pod)}, will try to kill it"
            self._recorder.event(owner.tree, "Warning", "FailedDaemonPod", text)
        await self._own.delete(owner, pod)

    async def _update_status(self, view: _View) -> float | None:
        owner = self._sets.item(*view.owner.key)
        if owner is None:
            return None
        min_ready_seconds = owner.spec.get("minReadySeconds", 0)
        counts = dict.fromkeys(
            ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
             "updatedNumberScheduled", "numberAvailable"), 0,
        )  # fmt: skip
        waits: list[float] = []
        for node, wanted in view.fits.items():
            alive = [pod for pod in view.on.get(node, ()) if not pod.deleting]
            if not wanted.start:
                counts["numberMisscheduled"] += bool(alive)
                continue
            counts["desiredNumberScheduled"] += 1
            if not alive:
                continue
            counts["currentNumberScheduled"] += 1
            counts["updatedNumberScheduled"] += any(pod.labels.get(HASH) == view.digest for pod in alive)
            ready = [ready_for(pod, min_ready_seconds, self._clock) for pod in alive if is_ready(pod)]
            counts["numberReady"] += bool(ready)
            counts["numberAvailable"] += any(wait <= 0 for wait in ready)
            waits += [wait for wait in ready if wait > 0]
        missing = counts["desiredNumberScheduled"] - counts["numberAvailable"]
        always = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
        status: Tree = {field: count for field, count in counts.items() if count or field in always}
        status["observedGeneration"] = view.owner.metadata.get("generation", 0)
        if missing > 0:
            status["numberUnavailable"] = missing
        for field in ("collisionCount", "conditions"):
            if owner.status.get(field):
                status[field] = owner.status[field]
        if status != owner.status:
            tree = {**owner.tree, "status": status}
            self._sets.record_write(await self._client.update(DAEMON_SETS, tree, subresource="status"))
        return min(waits, default=None)


#: The back-off of failed pods.
_FIRST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 900.0


class FailedDaemonBackoff:
    """Back-off for failed daemon pods: a node's first is replaced immediately, later ones after a delay.

    A pod that its node rejects fails as soon as it is bound. Without a back-off, controller, scheduler and node would
    create and reject pods as fast as they can (Kubernetes uses the same delays).
    """

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random
        self._waits: dict[str, dict[str, tuple[Backoff, float]]] = {}

    def seconds_left(self, uid: str, node: str) -> float:
        """Seconds until the failed pods of a node are replaced. At 0 the next back-off begins."""
        now = self._clock.seconds()
        nodes = self._waits.setdefault(uid, {})
        backoff, until = nodes.get(node) or (Backoff(self._random, first=_FIRST_SECONDS, longest=_LONGEST_SECONDS), now)
        if now < until:
            return until - now
        if now - until > 2 * _LONGEST_SECONDS:
            backoff.reset()
        nodes[node] = backoff, now + backoff.next()
        return 0.0

    def forget(self, uid: str) -> None:
        """Drop the state of a deleted DaemonSet."""
        self._waits.pop(uid, None)
