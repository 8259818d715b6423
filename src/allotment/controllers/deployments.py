"""Deployment controller: one ReplicaSet for each pod template, and updates from one to the next.

The new ReplicaSet is the one whose template equals the Deployment's. Revision numbers are stored in annotations, which
``kubectl rollout history`` and ``undo`` read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.adoption import Children, call_all
from allotment.controllers.deployment_status import deadline, is_complete, status_of
from allotment.controllers.pods import is_finished, owner_reference
from allotment.controllers.rollout import Bounds, Sized, bounds, new_size, old_sizes, proportional
from allotment.controllers.template_hash import template_hash
from allotment.model.trees import Tree

HASH: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
_HISTORY: Final = "deployment.kubernetes.io/revision-history"
_DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
_MOST: Final = "deployment.kubernetes.io/max-replicas"
_OWN: Final = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", REVISION, _HISTORY, _DESIRED, _MOST,
     "deprecated.deployment.rollback.to"}
)  # fmt: skip

Key = tuple[str, str]


class _View(NamedTuple):
    """A snapshot of a Deployment: its ReplicaSets, oldest first, and the new one among them."""

    deployment: CachedItem[Any]
    wanted: int
    bounds: Bounds
    sets: list[CachedItem[Any]]
    new: CachedItem[Any] | None

    @property
    def old(self) -> list[CachedItem[Any]]:
        return [replica_set for replica_set in self.sets if self.new is None or replica_set.uid != self.new.uid]


async def deployments(context: ProgramContext) -> None:
    """Run the Deployment controller."""
    await _Deployments(context).run()


class _Deployments:
    def __init__(self, context: ProgramContext) -> None:
        self._client = context.client_for("deployment-controller")
        self._clock = context.clock
        self._recorder = context.recorder("deployment-controller")
        self._deployments = context.caches.trees(DEPLOYMENTS)
        self._sets = context.caches.trees(REPLICA_SETS)
        self._pods = context.caches.trees(PODS)
        self._children = Children(self._sets, self._client)
        self._set_pods = Children(self._pods, self._client)
        self._by_uid = self._deployments.index("uid", lambda item: (item.uid,))
        self._by_space = self._deployments.index("namespace", lambda item: (item.namespace,))
        self._queue: WorkQueue[Key] = WorkQueue("deployments", self._sync, clock=context.clock, random=context.random)

    async def run(self) -> None:
        await run_queues(
            [self._queue],
            [(self._sets, self._set_changed), (self._deployments, self._changed), (self._pods, self._pod_changed)],
        )

    def _changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None:
            self._queue.add(new.key)

    def _set_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        found = new or old
        assert found is not None
        owner = found.controller
        if owner is None:
            for deployment in self._by_space[found.namespace]:
                self._queue.add(deployment.key)
        elif owner["kind"] == "Deployment":
            for deployment in self._by_uid[owner["uid"]]:
                self._queue.add(deployment.key)

    def _pod_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        """Requeue a Deployment with strategy Recreate when the last of its old pods is gone."""
        if new is not None or old is None:
            return
        owner = old.controller
        if owner is not None and owner["kind"] == "ReplicaSet":
            replica_set = self._sets.item(old.namespace, owner["name"])
            if replica_set is not None and replica_set.controller is not None:
                for deployment in self._by_uid[replica_set.controller["uid"]]:
                    if (deployment.spec.get("strategy") or {}).get("type") == "Recreate":
                        self._queue.add(deployment.key)

    async def _sync(self, key: Key) -> float | None:
        deployment = self._deployments.item(*key)
        if deployment is None:
            return None
        if not (deployment.spec.get("selector") or {}):
            self._recorder.event(
                deployment.tree, "Warning", "SelectingAll",
                "This deployment is selecting all pods. A non-empty selector is required.",
            )  # fmt: skip
            return None
        view = self._view(deployment, await self._children.of(deployment))
        created = rolling = False
        collisions = deployment.status.get("collisionCount")
        if not deployment.deleting:
            if deployment.spec.get("paused") or self._was_scaled(view):
                await self._scale_in_proportion(view)
                settled = bool(deployment.spec.get("paused"))
            else:
                rolling = True
                before = view
                if await self._roll(view):
                    collisions = (collisions or 0) + 1
                view = self._view(self._latest(deployment), self._children.known(deployment.uid))
                created = before.new is None and view.new is not None
                settled = _sizes(before) == _sizes(view) and is_complete(
                    deployment.status, view.wanted, deployment.metadata.get("generation", 0)
                )
            if settled:
                await self._delete_old_sets(view)
        return await self._update_status(view, deployment.metadata.get("generation", 0), collisions, rolling, created)

    def _latest(self, deployment: CachedItem[Any]) -> CachedItem[Any]:
        return self._deployments.item(*deployment.key) or deployment

    def _view(self, deployment: CachedItem[Any], sets: Sequence[CachedItem[Any]]) -> _View:
        wanted = _replicas(deployment)
        strategy = deployment.spec.get("strategy") or {}
        rolling = strategy.get("rollingUpdate") or {}
        limits = Bounds(0, wanted)
        if strategy.get("type") != "Recreate":
            limits = bounds(wanted, rolling.get("maxSurge"), rolling.get("maxUnavailable"))
        ordered = sorted(
            sets,
            key=lambda replica_set: (
                replica_set.metadata.get("creationTimestamp", ""),
                _revision(replica_set),
                replica_set.name,
            ),
        )
        template = _without_hash(deployment.spec["template"])
        new = next(
            (replica_set for replica_set in ordered if _without_hash(replica_set.spec["template"]) == template), None
        )
        return _View(deployment, wanted, limits, ordered, new)

    # --- rolling --------------------------------------------------------------------------------------------------

    async def _roll(self, view: _View) -> bool:
        """Make one step of a rolling update. Returns whether the name of a new ReplicaSet collided."""
        if (view.deployment.spec.get("strategy") or {}).get("type") == "Recreate":
            return await self._recreate(view)
        total = sum(_replicas(replica_set) for replica_set in view.sets)
        size = _replicas(view.new) if view.new else 0
        size = new_size(view.wanted, view.bounds.surge, size, total)
        new = await self._ensure_new_set(view, size)
        if new is None:
            return True
        if _replicas(new) != size:
            await self._resize(view, new, size)
            return False
        sizes = old_sizes(
            view.wanted, view.bounds.unavailable, _sized(new), [_sized(replica_set) for replica_set in view.old]
        )
        await call_all(
            [
                partial(self._resize, view, replica_set, sizes[replica_set.name])
                for replica_set in view.old
                if replica_set.name in sizes
            ]
        )
        return False

    async def _recreate(self, view: _View) -> bool:
        """Scale down all old ReplicaSets, then scale up the new one."""
        running = [replica_set for replica_set in view.old if _replicas(replica_set)]
        if running:
            await call_all([partial(self._resize, view, replica_set, 0) for replica_set in running])
            return False
        if any(not is_finished(pod) for replica_set in view.old for pod in self._set_pods.known(replica_set.uid)):
            return False
        new = await self._ensure_new_set(view, view.wanted)
        if new is None:
            return True
        if _replicas(new) != view.wanted:
            await self._resize(view, new, view.wanted)
        return False

    async def _ensure_new_set(self, view: _View, size: int) -> CachedItem[Any] | None:
        """Return the new ReplicaSet with current annotations, created if missing; None on a name collision."""
        deployment = view.deployment
        revision = str(max((_revision(replica_set) for replica_set in view.old), default=0) + 1)
        if view.new is not None:
            annotations = self._annotated(view, view.new, revision)
            new = view.new
            if annotations != (new.metadata.get("annotations") or {}):
                metadata = {**new.metadata, "annotations": annotations}
                new = await self._write_set({**new.tree, "metadata": metadata})
            await self._set_revision(deployment, annotations[REVISION])
            return new
        digest = template_hash(_without_hash(deployment.spec["template"]), deployment.status.get("collisionCount"))
        template = deployment.spec["template"]
        metadata = template.get("metadata") or {}
        labels = {**(metadata.get("labels") or {}), HASH: digest}
        selector = deployment.spec["selector"]
        spec: Tree = {
            "replicas": size,
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH: digest}},
            "template": {**template, "metadata": {**metadata, "labels": labels}},
        }
        if deployment.spec.get("minReadySeconds"):
            spec["minReadySeconds"] = deployment.spec["minReadySeconds"]
        tree: Tree = {
            "kind": "ReplicaSet",
            "apiVersion": "apps/v1",
            "metadata": {
                "name": f"{deployment.name}-{digest}",
                "namespace": deployment.namespace,
                "labels": labels,
                "annotations": self._annotated(view, None, revision),
                "ownerReferences": [owner_reference(deployment.tree)],
            },
            "spec": spec,
        }
        try:
            made = await self._client.create(REPLICA_SETS, tree, deployment.namespace)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                text = f"Failed to create new replica set {tree['metadata']['name']!r}: {error}"
                self._recorder.event(deployment.tree, "Warning", "ReplicaSetCreateError", text)
                raise
            return None
        self._sets.record_write(made)
        if size:
            text = f"Scaled up replica set {made['metadata']['name']} from 0 to {size}"
            self._recorder.event(deployment.tree, "Normal", "ScalingReplicaSet", text)
        await self._set_revision(deployment, revision)
        return self._sets.item(deployment.namespace, made["metadata"]["name"]) or CachedItem(made)

    def _annotated(self, view: _View, replica_set: CachedItem[Any] | None, revision: str) -> dict[str, str]:
        old = dict(replica_set.metadata.get("annotations") or {}) if replica_set else {}
        annotations = {
            key: value for key, value in (view.deployment.metadata.get("annotations") or {}).items() if key not in _OWN
        }
        annotations = {**old, **annotations}
        before = old.get(REVISION)
        if before is None or int(before) < int(revision):
            annotations[REVISION] = revision
            if before is not None:
                # A template that is used again keeps its earlier revision numbers.
                history = old.get(_HISTORY)
                annotations[_HISTORY] = f"{history},{before}" if history else before
        return {**annotations, **self._scale_annotations(view)}

    def _scale_annotations(self, view: _View) -> dict[str, str]:
        return {_DESIRED: str(view.wanted), _MOST: str(view.wanted + view.bounds.surge)}

    async def _set_revision(self, deployment: CachedItem[Any], revision: str) -> None:
        annotations = deployment.metadata.get("annotations") or {}
        if annotations.get(REVISION) != revision:
            metadata = {**deployment.metadata, "annotations": {**annotations, REVISION: revision}}
            tree = {**deployment.tree, "metadata": metadata}
            # Write the status, as upstream does: a write to the object would count as a new generation.
            self._deployments.record_write(await self._client.update(DEPLOYMENTS, tree, subresource="status"))

    # --- scaling --------------------------------------------------------------------------------------------------

    def _was_scaled(self, view: _View) -> bool:
        """Whether the desired replicas differ from those recorded on the ReplicaSets."""
        marks = (
            (replica_set.metadata.get("annotations") or {}).get(_DESIRED)
            for replica_set in view.sets
            if _replicas(replica_set)
        )
        return any(mark is not None and mark != str(view.wanted) for mark in marks)

    async def _scale_in_proportion(self, view: _View) -> None:
        active = [replica_set for replica_set in view.sets if _replicas(replica_set)]
        if len(active) <= 1:
            only = active[0] if active else view.new
            if only is not None and _replicas(only) != view.wanted:
                await self._resize(view, only, view.wanted)
            elif only is not None:
                await self._resize(view, only, view.wanted, quiet=True)
            return
        new = view.new
        if new is not None and _is_saturated(view.deployment, new, view.wanted):
            await call_all(
                [partial(self._resize, view, replica_set, 0) for replica_set in view.old if _replicas(replica_set)]
            )
            return
        if (view.deployment.spec.get("strategy") or {}).get("type") == "Recreate":
            return
        sizes = proportional(view.wanted, view.bounds.surge, [_sized(replica_set) for replica_set in reversed(active)])
        await call_all(
            [partial(self._resize, view, replica_set, sizes[replica_set.name], quiet=True) for replica_set in active]
        )

    async def _resize(self, view: _View, replica_set: CachedItem[Any], size: int, quiet: bool = False) -> None:
        old = _replicas(replica_set)
        annotations = {**(replica_set.metadata.get("annotations") or {}), **self._scale_annotations(view)}
        if quiet and size == old and annotations == replica_set.metadata.get("annotations"):
            return
        metadata = {**replica_set.metadata, "annotations": annotations}
        await self._write_set(
            {**replica_set.tree, "metadata": metadata, "spec": {**replica_set.spec, "replicas": size}}
        )
        if size != old:
            way = "up" if size > old else "down"
            text = f"Scaled {way} replica set {replica_set.name} from {old} to {size}"
            self._recorder.event(view.deployment.tree, "Normal", "ScalingReplicaSet", text)

    async def _write_set(self, tree: Tree) -> CachedItem[Any]:
        answer = await self._client.update(REPLICA_SETS, tree)
        self._sets.record_write(answer)
        metadata = answer["metadata"]
        return self._sets.item(metadata["namespace"], metadata["name"]) or CachedItem(answer)

    # --- history and status ------------------------------------------------------------------------------------------

    async def _delete_old_sets(self, view: _View) -> None:
        """Delete old empty ReplicaSets beyond ``revisionHistoryLimit``."""
        limit = view.deployment.spec.get("revisionHistoryLimit")
        if limit is None:
            return
        empty = [
            replica_set
            for replica_set in view.old
            if not replica_set.deleting and not _replicas(replica_set) and not replica_set.status.get("replicas")
        ]
        empty = [
            replica_set
            for replica_set in sorted(empty, key=_revision)
            if replica_set.status.get("observedGeneration", 0) >= replica_set.metadata.get("generation", 0)
        ]
        for replica_set in empty[: max(len(view.old) - limit, 0)]:
            try:
                await self._client.delete(REPLICA_SETS, replica_set.name, replica_set.namespace, uid=replica_set.uid)
            except StatusError as error:
                if error.code != 404:
                    raise
            self._sets.record_deletion(replica_set.tree)

    async def _update_status(
        self, view: _View, generation: int, collisions: int | None, rolling: bool, created: bool
    ) -> float | None:
        deployment = self._latest(view.deployment)
        status = status_of(
            deployment, view.sets, view.new, wanted=view.wanted, unavailable=view.bounds.unavailable,
            generation=generation, clock=self._clock, rolling=rolling, created=created, collisions=collisions,
        )  # fmt: skip
        if status != deployment.status:
            tree = {**deployment.tree, "status": status}
            self._deployments.record_write(await self._client.update(DEPLOYMENTS, tree, subresource="status"))
        if is_complete(status, view.wanted, generation):
            return None
        return deadline(deployment, status, self._clock)


def _replicas(replica_set: CachedItem[Any]) -> int:
    replicas = replica_set.spec.get("replicas")
    return 1 if replicas is None else int(replicas)


def _sizes(view: _View) -> dict[str, int]:
    return {replica_set.name: _replicas(replica_set) for replica_set in view.sets}


def _revision(replica_set: CachedItem[Any]) -> int:
    text = (replica_set.metadata.get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdecimal() else 0


def _sized(replica_set: CachedItem[Any]) -> Sized:
    most = (replica_set.metadata.get("annotations") or {}).get(_MOST, "")
    return Sized(
        replica_set.name,
        _replicas(replica_set),
        replica_set.status.get("availableReplicas", 0),
        int(most) if most.isdecimal() else _replicas(replica_set),
    )


def _is_saturated(deployment: CachedItem[Any], new: CachedItem[Any], wanted: int) -> bool:
    marks = new.metadata.get("annotations") or {}
    return _replicas(new) == wanted == new.status.get("availableReplicas", 0) and marks.get(_DESIRED) == str(wanted)


def _without_hash(template: Tree) -> Tree:
    """The template without the pod-template-hash label that the controller adds."""
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH}
    rest = {key: value for key, value in metadata.items() if key not in ("labels", "creationTimestamp")}
    return {**template, "metadata": {**rest, "labels": labels}}
