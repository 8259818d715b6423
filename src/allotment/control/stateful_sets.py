"""StatefulSets: pods with numbers that stay, made in order, ended in reverse order, each with volumes of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from allotment.cluster.cache import Item
from allotment.cluster.client import Tree
from allotment.cluster.errors import StatusError
from allotment.cluster.program import Context, follow
from allotment.cluster.queue import WorkQueue
from allotment.cluster.resources import PODS, STATEFUL_SETS, VOLUME_CLAIMS
from allotment.control.children import Children
from allotment.control.pods import is_finished, is_ready, pod_from, ready_for
from allotment.control.revisions import HASH, Revisions, template_of
from allotment.control.rollout import scaled

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"

Key = tuple[str, str]


class _View(NamedTuple):
    """A StatefulSet at one look. Numbers from ``first`` up to, but without, ``end`` are wanted."""

    owner: Item[Any]
    pods: dict[int, Item[Any]]
    first: int
    end: int
    current: Item[Any]
    update: Item[Any]

    @property
    def in_order(self) -> bool:
        return self.owner.spec.get("podManagementPolicy") != "Parallel"

    @property
    def partition(self) -> int:
        """Pods with lower numbers keep the revision that they have."""
        strategy = self.owner.spec.get("updateStrategy") or {}
        return int((strategy.get("rollingUpdate") or {}).get("partition") or 0)


async def stateful_sets(context: Context) -> None:
    """The program."""
    await _StatefulSets(context).run()


class _StatefulSets:
    def __init__(self, context: Context) -> None:
        self._client = context.client_for("statefulset-controller")
        self._clock = context.clock
        self._recorder = context.recorder("statefulset-controller")
        self._sets = context.caches.trees(STATEFUL_SETS)
        self._pods = context.caches.trees(PODS)
        self._volumes = context.caches.trees(VOLUME_CLAIMS)
        self._children = Children(self._pods, self._client)
        self._revisions = Revisions(context, self._client, "controller.kubernetes.io/hash")
        self._by_uid = self._sets.index("uid", lambda item: (item.uid,))
        self._queue: WorkQueue[Key] = WorkQueue("statefulsets", self._sync, clock=context.clock, random=context.random)

    async def run(self) -> None:
        await self._volumes.synced.wait()
        await self._revisions.cache.synced.wait()
        await follow([self._queue], [(self._pods, self._pod_changed), (self._sets, self._changed)])

    def _changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        if new is not None:
            self._queue.add(new.key)

    def _pod_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        for pod in (old, new):
            owner = pod.controller if pod else None
            if owner is not None and owner["kind"] == "StatefulSet":
                for found in self._by_uid[owner["uid"]]:
                    self._queue.add(found.key)

    async def _sync(self, key: Key) -> float | None:
        owner = self._sets.item(*key)
        if owner is None or owner.deleting:
            return None
        pods = await self._children.of(owner)
        update = await self._revisions.newest(owner)
        known = {one.name: one for one in self._revisions.of(owner)}
        current = known.get(owner.status.get("currentRevision", ""), update)
        replicas = owner.spec.get("replicas")
        first = (owner.spec.get("ordinals") or {}).get("start") or 0
        end = first + (1 if replicas is None else replicas)
        numbered = {number: pod for pod in pods if (number := ordinal_of(pod.name, owner.name)) is not None}
        view = _View(owner, numbered, first, end, current, update)
        try:
            wait = await self._step(view)
        finally:
            await self._tell(view)
        used = {pod.labels.get(HASH, "") for pod in self._children.known(owner.uid)}
        await self._revisions.forget(owner, {*used, current.name, update.name})
        return wait

    async def _step(self, view: _View) -> float | None:
        """Bring the pods one step nearer to what is wanted; when to look again."""
        for number in range(view.first, view.end):
            pod = view.pods.get(number)
            if pod is None:
                await self._create(view, number)
            elif is_finished(pod) and not pod.deleting:
                await self._delete(view.owner, pod)
            elif not view.in_order or (wait := self._available_in(view, pod)) == 0:
                continue
            else:
                return wait
            if view.in_order:
                return None
        for number in sorted((n for n in view.pods if not view.first <= n < view.end), reverse=True):
            if not view.pods[number].deleting:
                await self._delete(view.owner, view.pods[number])
            if view.in_order:
                return None
        return await self._update(view)

    def _available_in(self, view: _View, pod: Item[Any]) -> float | None:
        """0: it is there; ``None``: nobody knows when it will be."""
        if pod.deleting or not is_ready(pod):
            return None
        return max(ready_for(pod, view.owner.spec.get("minReadySeconds", 0), self._clock), 0)

    async def _update(self, view: _View) -> float | None:
        """Delete pods of other revisions from the highest number down; they come back as they should be."""
        strategy = view.owner.spec.get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return None
        allowed = (strategy.get("rollingUpdate") or {}).get("maxUnavailable")
        budget = max(scaled(1 if allowed is None else allowed, view.end - view.first, up=True), 1)
        waits: list[float] = []
        for number in range(view.end - 1, max(view.partition, view.first) - 1, -1):
            pod = view.pods.get(number)
            if budget <= 0:
                break
            if pod is not None and not pod.deleting and pod.labels.get(HASH) != view.update.name:
                await self._delete(view.owner, pod)
                budget -= 1
            elif pod is None or (wait := self._available_in(view, pod)) != 0:
                budget -= 1
                if pod is not None and wait:
                    waits.append(wait)
        return min(waits, default=None)

    async def _create(self, view: _View, number: int) -> None:
        owner = view.owner
        # Below the partition a pod comes back as it was.
        new = number >= view.partition or view.current.name == view.update.name
        revision = view.update if new else view.current
        name = f"{owner.name}-{number}"
        labels = {HASH: revision.name, POD_NAME: name, POD_INDEX: str(number)}
        pod = pod_from(template_of(revision), owner.tree, name=name, labels=labels)
        pod["metadata"]["generateName"] = f"{owner.name}-"
        volumes = {one["metadata"]["name"]: f"{one['metadata']['name']}-{name}" for one in _claim_templates(owner)}
        spec = {**pod["spec"], "hostname": name}
        if owner.spec.get("serviceName"):
            spec["subdomain"] = owner.spec["serviceName"]
        if volumes:
            others = [one for one in spec.get("volumes") or () if one["name"] not in volumes]
            own = [{"name": one, "persistentVolumeClaim": {"claimName": claim}} for one, claim in volumes.items()]
            spec["volumes"] = [*own, *others]
        try:
            await self._make_volumes(owner, name)
            made = await self._client.create(PODS, {**pod, "spec": spec}, owner.namespace)
        except StatusError as error:
            if error.reason == "AlreadyExists":
                raise
            text = f"Create Pod {name} in StatefulSet {owner.name} failed error: {error}"
            self._recorder.event(owner.tree, "Warning", "FailedCreate", text)
            raise
        self._pods.noted(made)
        text = f"Create Pod {name} in StatefulSet {owner.name} successful"
        self._recorder.event(owner.tree, "Normal", "SuccessfulCreate", text)

    async def _make_volumes(self, owner: Item[Any], pod: str) -> None:
        for template in _claim_templates(owner):
            name = f"{template['metadata']['name']}-{pod}"
            if self._volumes.item(owner.namespace, name) is not None:
                continue
            labels = (owner.spec["selector"].get("matchLabels")) or {}
            metadata = {
                **template["metadata"],
                "name": name,
                "namespace": owner.namespace,
                "labels": {**(template["metadata"].get("labels") or {}), **labels},
            }
            tree = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": metadata, "spec": template["spec"]}
            try:
                self._volumes.noted(await self._client.create(VOLUME_CLAIMS, tree, owner.namespace))
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    raise

    async def _delete(self, owner: Item[Any], pod: Item[Any]) -> None:
        try:
            gone = await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
        except StatusError as error:
            if error.code != 404:
                raise
            return
        if gone.get("metadata", {}).get("uid") == pod.uid and "deletionTimestamp" in gone["metadata"]:
            self._pods.noted(gone)
        text = f"Delete Pod {pod.name} in StatefulSet {owner.name} successful"
        self._recorder.event(owner.tree, "Normal", "SuccessfulDelete", text)

    async def _tell(self, view: _View) -> None:
        owner = self._sets.item(*view.owner.key)
        if owner is None:
            return
        pods: Sequence[Item[Any]] = [pod for pod in self._children.known(owner.uid) if not is_finished(pod)]
        patience = owner.spec.get("minReadySeconds", 0)
        ready = [pod for pod in pods if is_ready(pod)]
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
            "availableReplicas": sum(ready_for(pod, patience, self._clock) <= 0 for pod in ready),
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
            self._sets.noted(await self._client.update(STATEFUL_SETS, tree, subresource="status"))


def ordinal_of(pod: str, owner: str) -> int | None:
    """The number in a pod's name.

    >>> ordinal_of("web-10", "web"), ordinal_of("web-db-1", "web")
    (10, None)
    """
    prefix, _, number = pod.rpartition("-")
    return int(number) if prefix == owner and number.isdecimal() else None


def _claim_templates(owner: Item[Any]) -> Sequence[Tree]:
    return owner.spec.get("volumeClaimTemplates") or ()
