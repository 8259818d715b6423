"""Protection of claims and volumes: a deleted claim stays while a pod uses it, a deleted volume while it is bound.

From 1.37 a condition of each bound claim states whether any pod uses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.client import Client, Resource
from allotment.cluster.program import Program, ProgramContext, run_queues
from allotment.cluster.resources import PODS, VOLUME_CLAIMS, VOLUMES
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.pods import is_finished
from allotment.controllers.release import controller_release
from allotment.model.features import Features
from allotment.model.pod_volume_claims import claim_names, is_for
from allotment.model.trees import Tree

_CLAIM_FINALIZER: Final = "kubernetes.io/pvc-protection"
_VOLUME_FINALIZER: Final = "kubernetes.io/pv-protection"
#: Reason and message of the condition Unused, by its status.
_UNUSED: Final = {
    "True": ("NoPodsUsingPVC", "No pods are currently referencing this PVC"),
    "False": ("PodUsingPVC", "A pod is currently referencing this PVC"),
}

_Key = tuple[str, str]


def claim_protection(features: Features) -> Program:
    """The controller that protects claims."""
    reports_use = controller_release(features).reports_unused_claims

    async def run(context: ProgramContext) -> None:
        await _ClaimProtection(context, reports_use).run()

    return run


class _ClaimProtection:
    def __init__(self, context: ProgramContext, reports_use: bool) -> None:
        self._context = context
        self._reports_use = reports_use
        self._client = context.client_for("pvc-protection-controller")
        self._claims = context.caches.trees(VOLUME_CLAIMS)
        self._pods = context.caches.trees(PODS)
        self._users = self._pods.index("volume claims", _claims_of)
        self._queue: WorkQueue[_Key] = WorkQueue(
            "claim-protection", self._sync, clock=context.clock, random=context.random
        )

    async def run(self) -> None:
        await run_queues([self._queue], [(self._pods, self._pod_changed), (self._claims, self._claim_changed)])

    def _claim_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None and (
            _lacks(new, _CLAIM_FINALIZER) or _awaits(new, _CLAIM_FINALIZER) or (self._reports_use and not _unused(new))
        ):
            self._queue.add(new.key)

    def _pod_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        for pod in (old, new):
            for key in _claims_of(pod) if pod is not None else ():
                claim = self._claims.item(*key)
                if claim is not None and (claim.deleting or self._reports_use):
                    self._queue.add(key)

    async def _sync(self, key: _Key) -> None:
        claim = self._claims.item(*key)
        if claim is None:
            return
        if self._reports_use and not claim.deleting and claim.status.get("phase") == "Bound":
            await self._report_use(claim)
        if _awaits(claim, _CLAIM_FINALIZER):
            if not any(_keeps(pod, claim) for pod in await self._pods_of(claim)):
                await _remove(self._client, VOLUME_CLAIMS, self._claims, claim, _CLAIM_FINALIZER)
        elif _lacks(claim, _CLAIM_FINALIZER):
            await _add(self._client, VOLUME_CLAIMS, self._claims, claim, _CLAIM_FINALIZER)

    async def _pods_of(self, claim: CachedItem[Any]) -> list[Tree]:
        """The pods that may use a claim. Only the API knows all of them: without its finalizer the claim is gone."""
        if any(_keeps(pod.tree, claim) for pod in self._users[claim.key]):
            return [pod.tree for pod in self._users[claim.key]]
        return list((await self._client.list(PODS, claim.namespace)).items)

    async def _report_use(self, claim: CachedItem[Any]) -> None:
        used = any(not is_finished(pod) and _uses(pod.tree, claim) for pod in self._users[claim.key])
        before, status = _unused(claim), "False" if used else "True"
        if before is not None and before["status"] == status:
            return
        reason, message = _UNUSED[status]
        condition: Tree = {
            "type": "Unused", "status": status, "reason": reason, "message": message, "lastProbeTime": None,
            "lastTransitionTime": self._context.clock.now(),
        }  # fmt: skip
        others = [each for each in claim.status.get("conditions") or () if each["type"] != "Unused"]
        tree = {**claim.tree, "status": {**claim.status, "conditions": [*others, condition]}}
        self._claims.record_write(await self._client.update(VOLUME_CLAIMS, tree, subresource="status"))


async def volume_protection(context: ProgramContext) -> None:
    """Run the controller that protects volumes."""
    client = context.client_for("pv-protection-controller")
    volumes = context.caches.trees(VOLUMES)

    async def sync(name: str) -> None:
        volume = volumes.item("", name)
        if volume is None:
            return
        if _awaits(volume, _VOLUME_FINALIZER):
            if volume.status.get("phase") != "Bound":
                await _remove(client, VOLUMES, volumes, volume, _VOLUME_FINALIZER)
        elif _lacks(volume, _VOLUME_FINALIZER):
            await _add(client, VOLUMES, volumes, volume, _VOLUME_FINALIZER)

    queue: WorkQueue[str] = WorkQueue("volume-protection", sync, clock=context.clock, random=context.random)

    def changed(old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None and (_lacks(new, _VOLUME_FINALIZER) or _awaits(new, _VOLUME_FINALIZER)):
            queue.add(new.name)

    await run_queues([queue], [(volumes, changed)])


def _lacks(item: CachedItem[Any], finalizer: str) -> bool:
    return not item.deleting and finalizer not in (item.metadata.get("finalizers") or ())


def _awaits(item: CachedItem[Any], finalizer: str) -> bool:
    return item.deleting and finalizer in (item.metadata.get("finalizers") or ())


def _unused(claim: CachedItem[Any]) -> Tree | None:
    """The condition Unused of a claim."""
    return next((each for each in claim.status.get("conditions") or () if each["type"] == "Unused"), None)


def _claims_of(pod: CachedItem[Any]) -> Iterator[_Key]:
    for name, _ in claim_names(pod.tree):
        yield pod.namespace, name


def _uses(pod: Tree, claim: CachedItem[Any]) -> bool:
    return any(
        name == claim.name and (not ephemeral or is_for(claim.tree, pod)) for name, ephemeral in claim_names(pod)
    )


def _keeps(pod: Tree, claim: CachedItem[Any]) -> bool:
    """Whether a pod prevents the deletion of a claim: it has a node, and its volumes may be mounted there."""
    if not pod["spec"].get("nodeName"):
        return False
    is_shut_down = pod["metadata"].get("deletionGracePeriodSeconds") == 0 and "deletionTimestamp" in pod["metadata"]
    return any(
        name == claim.name and (not ephemeral or (not is_shut_down and is_for(claim.tree, pod)))
        for name, ephemeral in claim_names(pod)
    )


async def _add(client: Client, resource: Resource, cache: Cache[Any], item: CachedItem[Any], finalizer: str) -> None:
    metadata = {**item.metadata, "finalizers": [*(item.metadata.get("finalizers") or ()), finalizer]}
    cache.record_write(await client.update(resource, {**item.tree, "metadata": metadata}))


async def _remove(client: Client, resource: Resource, cache: Cache[Any], item: CachedItem[Any], finalizer: str) -> None:
    rest = [each for each in item.metadata["finalizers"] if each != finalizer]
    cache.record_write(await client.update(resource, {**item.tree, "metadata": {**item.metadata, "finalizers": rest}}))
