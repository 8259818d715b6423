"""StatefulSet controller: pods with stable ordinals, created in order, deleted in reverse, each with its volumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import PODS, STATEFUL_SETS
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.adoption import Children
from allotment.controllers.pods import is_finished, is_ready, phase_of, pod_from, ready_for
from allotment.controllers.revisions import HASH, Revisions, template_of
from allotment.controllers.stateful_set_claims import SetClaims, claim_templates
from allotment.model.trees import Tree

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"

#: Seconds between checks for the claims of an earlier pod.
_CLAIMS_GO: Final = 1.0

Key = tuple[str, str]


class _View(NamedTuple):
    """A snapshot of a StatefulSet. Its ordinals are ``first <= n < end``."""

    owner: CachedItem[Any]
    pods: dict[int, CachedItem[Any]]
    first: int
    end: int
    current: CachedItem[Any]
    update: CachedItem[Any]

    @property
    def in_order(self) -> bool:
        return self.owner.spec.get("podManagementPolicy") != "Parallel"

    @property
    def partition(self) -> int:
        """The lowest ordinal that is updated; pods below keep their revision."""
        strategy = self.owner.spec.get("updateStrategy") or {}
        return self.first + int((strategy.get("rollingUpdate") or {}).get("partition") or 0)


async def stateful_sets(context: ProgramContext) -> None:
    """Run the StatefulSet controller."""
    await _StatefulSets(context).run()


class _StatefulSets:
    def __init__(self, context: ProgramContext) -> None:
        self._client = context.client_for("statefulset-controller")
        self._clock = context.clock
        self._recorder = context.recorder("statefulset-controller")
        self._sets = context.caches.trees(STATEFUL_SETS)
        self._pods = context.caches.trees(PODS)
        self._children = Children(self._pods, self._client)
        self._claims = SetClaims(context, self._client, self._recorder)
        self._revisions = Revisions(context, self._client, "controller.kubernetes.io/hash")
        self._by_uid = self._sets.index("uid", lambda item: (item.uid,))
        self._queue: WorkQueue[Key] = WorkQueue("statefulsets", self._sync, clock=context.clock, random=context.random)

    async def run(self) -> None:
        await self._claims.cache.synced.wait()
        await self._revisions.cache.synced.wait()
        await run_queues([self._queue], [(self._pods, self._pod_changed), (self._sets, self._changed)])

    def _changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None:
            self._queue.add(new.key)

    def _pod_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        for pod in (old, new):
            owner = pod.controller if pod else None
            if owner is not None and owner["kind"] == "StatefulSet":
                for found in self._by_uid[owner["uid"]]:
                    self._queue.add(found.key)

    async def _sync(self, key: Key) -> float | None:
        owner = self._sets.item(*key)
        if owner is None:
            return None
        pods = await self._children.of(owner, lambda pod: ordinal_of(pod.name, owner.name) is not None)
        update = await self._revisions.newest(owner)
        known = {revision.name: revision for revision in self._revisions.of(owner)}
        current = known.get(owner.status.get("currentRevision", ""), update)
        replicas = owner.spec.get("replicas")
        first = (owner.spec.get("ordinals") or {}).get("start") or 0
        end = first + (1 if replicas is None else replicas)
        numbered = {number: pod for pod in pods if (number := ordinal_of(pod.name, owner.name)) is not None}
        view = _View(owner, numbered, first, end, current, update)
        try:
            wait = None if owner.deleting else await self._step(view)
        finally:
            await self._update_status(view)
        used = {pod.labels.get(HASH, "") for pod in self._children.known(owner.uid)}
        await self._revisions.forget(owner, {*used, current.name, update.name})
        return wait

    async def _step(self, view: _View) -> float | None:
        """Make one step toward the desired pods. Returns the seconds until the next step."""
        owner = view.owner
        waits: list[float | None] = []
        for number in range(view.first, view.end):
            pod = view.pods.get(number)
            if pod is None:
                if self._claims.are_stale(owner, f"{owner.name}-{number}"):
                    waits.append(_CLAIMS_GO)
                else:
                    await self._create(view, number)
            elif is_finished(pod):
                if not pod.deleting:
                    await self._delete(owner, pod)
            else:
                if phase_of(pod) == "Pending":
                    await self._claims.make(owner, pod.name)
                wait = self._available_in(view, pod)
                if not view.in_order or wait == 0:
                    await self._identify(owner, pod)
                    await self._claims.update_owners(owner, pod, wanted=True)
                    continue
                waits.append(wait)
            if view.in_order:
                return _first(waits)
        surplus = [view.pods[n] for n in sorted(view.pods, reverse=True) if not view.first <= n < view.end]
        for pod in surplus:
            await self._claims.update_owners(owner, pod, wanted=False)
        lowest = next((pod for pod in reversed(surplus) if self._available_in(view, pod) != 0), None)
        for pod in surplus:
            # In order, only healthy pods are deleted; among the unhealthy, the lowest ordinal may go first.
            if view.in_order and pod is not lowest and (wait := self._available_in(view, pod)) != 0:
                return wait
            if not pod.deleting:
                await self._delete(owner, pod)
            if view.in_order:
                return None
        waits.append(await self._update(view))
        return _first(waits)

    def _available_in(self, view: _View, pod: CachedItem[Any]) -> float | None:
        """Seconds until the pod is available: 0 if it is, None if unknown."""
        if pod.deleting or not is_ready(pod):
            return None
        return max(ready_for(pod, view.owner.spec.get("minReadySeconds", 0), self._clock), 0)

    async def _update(self, view: _View) -> float | None:
        """Delete pods of other revisions from the highest ordinal down; they are recreated with the new one."""
        if (view.owner.spec.get("updateStrategy") or {}).get("type") == "OnDelete":
            return None
        for number in range(view.end - 1, view.partition - 1, -1):
            pod = view.pods.get(number)
            if pod is None:
                return None
            if pod.labels.get(HASH) != view.update.name and not pod.deleting:
                await self._delete(view.owner, pod)
                return None
            wait = self._available_in(view, pod)
            if wait != 0:
                return wait
        return None

    async def _identify(self, owner: CachedItem[Any], pod: CachedItem[Any]) -> None:
        """Set the identity labels of an adopted pod."""
        number = str(ordinal_of(pod.name, owner.name))
        labels = {**pod.labels, POD_NAME: pod.name, POD_INDEX: number}
        if pod.labels.get(POD_NAME) != pod.name:
            tree = {**pod.tree, "metadata": {**pod.metadata, "labels": labels}}
            self._pods.record_write(await self._client.update(PODS, tree))
            text = f"Update Pod {pod.name} in StatefulSet {owner.name} successful"
            self._recorder.event(owner.tree, "Normal", "SuccessfulUpdate", text)

    async def _create(self, view: _View, number: int) -> None:
        owner = view.owner
        # Below the partition a pod is recreated with its old revision.
        new = number >= view.partition or view.current.name == view.update.name
        revision = view.update if new else view.current
        name = f"{owner.name}-{number}"
        labels = {HASH: revision.name, POD_NAME: name, POD_INDEX: str(number)}
        pod = pod_from(template_of(revision), owner.tree, name=name, labels=labels)
        pod["metadata"]["generateName"] = f"{owner.name}-"
        volumes = {
            template["metadata"]["name"]: f"{template['metadata']['name']}-{name}"
            for template in claim_templates(owner)
        }
        spec = {**pod["spec"], "hostname": name}
        if owner.spec.get("serviceName"):
            spec["subdomain"] = owner.spec["serviceName"]
        if volumes:
            others = [volume for volume in spec.get("volumes") or () if volume["name"] not in volumes]
            own = [{"name": volume, "persistentVolumeClaim": {"claimName": claim}} for volume, claim in volumes.items()]
            spec["volumes"] = [*own, *others]
        try:
            await self._claims.make(owner, name)
            made = await self._client.create(PODS, {**pod, "spec": spec}, owner.namespace)
        except StatusError as error:
            if error.reason == "AlreadyExists":
                raise
            text = f"Create Pod {name} in StatefulSet {owner.name} failed error: {error}"
            self._recorder.event(owner.tree, "Warning", "FailedCreate", text)
            raise
        self._pods.record_write(made)
        await self._claims.update_owners(owner, CachedItem(made), wanted=True)
        text = f"Create Pod {name} in StatefulSet {owner.name} successful"
        self._recorder.event(owner.tree, "Normal", "SuccessfulCreate", text)

    async def _delete(self, owner: CachedItem[Any], pod: CachedItem[Any]) -> None:
        try:
            gone = await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
        except StatusError as error:
            if error.code != 404:
                raise
            return
        if gone.get("metadata", {}).get("uid") == pod.uid and "deletionTimestamp" in gone["metadata"]:
            self._pods.record_write(gone)
        text = f"Delete Pod {pod.name} in StatefulSet {owner.name} successful"
        self._recorder.event(owner.tree, "Normal", "SuccessfulDelete", text)

    async def _update_status(self, view: _View) -> None:
        owner = self._sets.item(*view.owner.key)
        if owner is None:
            return
        pods: Sequence[CachedItem[Any]] = self._children.known(owner.uid)
        min_ready_seconds = owner.spec.get("minReadySeconds", 0)
        ready = [pod for pod in pods if is_ready(pod) and not is_finished(pod)]
        updated = [pod for pod in pods if pod.labels.get(HASH) == view.update.name and not pod.deleting]
        current = [pod for pod in pods if pod.labels.get(HASH) == view.current.name and not pod.deleting]
        status: Tree = {
            "observedGeneration": view.owner.metadata.get("generation", 0),
            "replicas": len(pods),
            "readyReplicas": len(ready),
            "currentReplicas": len(current),
            "updatedReplicas": len(updated),
            "currentRevision": view.current.name,
            "updateRevision": view.update.name,
            "collisionCount": owner.status.get("collisionCount", 0),
            "availableReplicas": sum(ready_for(pod, min_ready_seconds, self._clock) <= 0 for pod in ready),
        }
        wanted = view.end - view.first
        if len(updated) == wanted == len([pod for pod in updated if is_ready(pod)]) and len(pods) == wanted:
            status |= {"currentRevision": view.update.name, "currentReplicas": wanted}
        status = {
            field: value
            for field, value in status.items()
            if value or field in ("replicas", "availableReplicas", "collisionCount")
        }
        if owner.status.get("conditions"):
            status["conditions"] = owner.status["conditions"]
        if status != owner.status:
            tree = {**owner.tree, "status": status}
            self._sets.record_write(await self._client.update(STATEFUL_SETS, tree, subresource="status"))


def ordinal_of(pod: str, owner: str) -> int | None:
    """The ordinal in a pod's name, or None.

    >>> ordinal_of("web-10", "web"), ordinal_of("web-db-1", "web")
    (10, None)
    """
    prefix, _, number = pod.rpartition("-")
    return int(number) if prefix == owner and number.isdecimal() else None


def _first(waits: Sequence[float | None]) -> float | None:
    return min((wait for wait in waits if wait), default=None)
