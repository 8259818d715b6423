"""The claims of ephemeral volumes: each is created for one pod, and deleted with it by garbage collection."""

from __future__ import annotations

from typing import Any

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import PODS, VOLUME_CLAIMS
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.pods import owner_reference
from allotment.model.pod_volume_claims import ephemeral_claim_name, is_for, not_owned_message
from allotment.model.trees import Tree

_Key = tuple[str, str]


async def ephemeral_volumes(context: ProgramContext) -> None:
    """Run the ephemeral volume controller."""
    client = context.client_for("ephemeral-volume-controller")
    recorder = context.recorder("ephemeral_volume")
    claims = context.caches.trees(VOLUME_CLAIMS)
    pods = context.caches.trees(PODS)

    async def sync(key: _Key) -> None:
        pod = pods.item(*key)
        if pod is None or pod.deleting:
            return
        for volume in _ephemeral(pod):
            try:
                await make(pod, volume)
            except StatusError as error:
                text = f"ephemeral volume {volume['name']}: {error}"
                recorder.event(pod.tree, "Warning", "FailedBinding", text)
                raise

    async def make(pod: CachedItem[Any], volume: Tree) -> None:
        name = ephemeral_claim_name(pod.tree, volume)
        known = claims.tree(pod.namespace, name)
        if known is not None:
            if not is_for(known, pod.tree):
                text = not_owned_message(known, pod.tree)
                raise StatusError({"code": 409, "reason": "Conflict", "message": text})
            return
        template: Tree = volume["ephemeral"]["volumeClaimTemplate"]
        wanted = template.get("metadata") or {}
        owner = {"kind": "Pod", "apiVersion": "v1", **pod.tree}
        metadata: Tree = {"name": name, "namespace": pod.namespace, "ownerReferences": [owner_reference(owner)]}
        metadata |= {field: wanted[field] for field in ("annotations", "labels") if wanted.get(field)}
        tree = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": metadata, "spec": template["spec"]}
        try:
            claims.record_write(await client.create(VOLUME_CLAIMS, tree, pod.namespace))
        except StatusError as error:
            raise StatusError({**error.status, "message": f"create PVC {name}: {error}"}) from error

    queue: WorkQueue[_Key] = WorkQueue("ephemeral-volumes", sync, clock=context.clock, random=context.random)

    def pod_changed(old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None and old is None and _ephemeral(new):
            queue.add(new.key)

    def claim_changed(old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        """Replace a claim that was deleted while its pod exists."""
        owner = old.controller if old is not None and new is None else None
        if old is not None and owner is not None and owner["kind"] == "Pod":
            queue.add((old.namespace, owner["name"]))

    await run_queues([queue], [(claims, claim_changed), (pods, pod_changed)])


def _ephemeral(pod: CachedItem[Any]) -> list[Tree]:
    return [volume for volume in pod.spec.get("volumes") or () if volume.get("ephemeral") is not None]
