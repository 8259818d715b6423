"""Volume claims of a StatefulSet's pods: created before the pods, deleted according to the retention policy.

A claim is deleted with the owner that it names; the retention policy decides whether that is the set, an excess pod, or
no object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext
from allotment.cluster.recorder import Recorder
from allotment.cluster.resources import VOLUME_CLAIMS
from allotment.controllers.pods import owner_reference
from allotment.model.trees import Tree

_IGNORED: Final = (
    "PersistentVolumeClaim {} has a conflicting OwnerReference that acts as a manging controller, "
    "the retention policy is ignored for this claim"
)


class SetClaims:
    """Creates volume claims and sets their owners."""

    def __init__(self, context: ProgramContext, client: Client, recorder: Recorder) -> None:
        self._client = client
        self._recorder = recorder
        self.cache = context.caches.trees(VOLUME_CLAIMS)

    async def make(self, owner: CachedItem[Any], pod: str) -> None:
        """Create the claims of a pod. Raises StatusError if one of them is being deleted."""
        for template in claim_templates(owner):
            name = f"{template['metadata']['name']}-{pod}"
            known = self.cache.item(owner.namespace, name)
            if known is not None:
                if known.deleting:
                    text = f"pvc {name} is being deleted"
                    raise StatusError({"code": 409, "reason": "Conflict", "message": text})
                continue
            labels = owner.spec["selector"].get("matchLabels") or {}
            metadata = {
                **template["metadata"],
                "name": name,
                "namespace": owner.namespace,
                "labels": {**(template["metadata"].get("labels") or {}), **labels},
            }
            tree = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": metadata, "spec": template["spec"]}
            try:
                self.cache.record_write(await self._client.create(VOLUME_CLAIMS, tree, owner.namespace))
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    text = f"Create Claim {name} for Pod {pod} in StatefulSet {owner.name} failed error: {error}"
                    self._recorder.event(owner.tree, "Warning", "FailedCreate", text)
                    message = f"failed to create PVC {name}: {error}"
                    raise StatusError({**error.status, "message": message}) from error
            else:
                text = f"Create Claim {name} Pod {pod} in StatefulSet {owner.name} success"
                self._recorder.event(owner.tree, "Normal", "SuccessfulCreate", text)

    def are_stale(self, owner: CachedItem[Any], pod: str) -> bool:
        """Whether a claim is still owned by an earlier pod and must be deleted first."""
        if _policy(owner)[0] == "Retain":
            return False
        return any(_is_about(reference, "Pod", pod) for claim in self._of(owner, pod) for reference in _owners(claim))

    async def update_owners(self, owner: CachedItem[Any], pod: CachedItem[Any], wanted: bool) -> None:
        """Set the owners of a pod's claims by the policy; ``wanted``: its ordinal is in the set's range."""
        for claim in self._of(owner, pod.name):
            owners = _owners(claim)
            is_set_or_pod = [
                _is_about(reference, "StatefulSet", owner.name) or _is_about(reference, "Pod", pod.name)
                for reference in owners
            ]
            if any(
                matches and reference["uid"] not in (owner.uid, pod.uid)
                for reference, matches in zip(owners, is_set_or_pod, strict=True)
            ):
                continue  # owned by an earlier object with the same name, and deleted with it
            others = [reference for reference, matches in zip(owners, is_set_or_pod, strict=True) if not matches]
            new = others
            if _policy(owner) != ("Retain", "Retain") and any(reference.get("controller") for reference in others):
                self._recorder.event(owner.tree, "Warning", "ConflictingController", _IGNORED.format(claim.name))
            else:
                new = [*others, *_wanted_owners(owner, pod, wanted)]
            if _uids(new) != _uids(owners):
                # A patch: the volume controller writes the claim at the same time.
                patch = {"metadata": {"uid": claim.uid, "ownerReferences": new or None}}
                written = await self._client.patch(VOLUME_CLAIMS, claim.name, patch, claim.namespace)
                self.cache.record_write(written)

    def _of(self, owner: CachedItem[Any], pod: str) -> Iterator[CachedItem[Any]]:
        for template in claim_templates(owner):
            claim = self.cache.item(owner.namespace, f"{template['metadata']['name']}-{pod}")
            if claim is not None:
                yield claim


def claim_templates(owner: CachedItem[Any]) -> Sequence[Tree]:
    """The templates of each pod's claims."""
    return owner.spec.get("volumeClaimTemplates") or ()


def _policy(owner: CachedItem[Any]) -> tuple[str, str]:
    """The policy for the claims of excess pods, and for all claims when the set is deleted."""
    policy = owner.spec.get("persistentVolumeClaimRetentionPolicy") or {}
    return policy.get("whenScaled", "Retain"), policy.get("whenDeleted", "Retain")


def _wanted_owners(owner: CachedItem[Any], pod: CachedItem[Any], wanted: bool) -> list[Tree]:
    scaled, deleted = _policy(owner)
    if scaled == "Delete" and not wanted:
        return [owner_reference({"kind": "Pod", "apiVersion": "v1", **pod.tree})]
    if deleted == "Delete":
        return [owner_reference({"kind": "StatefulSet", "apiVersion": "apps/v1", **owner.tree})]
    return []


def _owners(claim: CachedItem[Any]) -> list[Tree]:
    return claim.metadata.get("ownerReferences") or []


def _is_about(reference: Tree, kind: str, name: str) -> bool:
    version = "v1" if kind == "Pod" else "apps/v1"
    return (reference["apiVersion"], reference["kind"], reference["name"]) == (version, kind, name)


def _uids(references: Sequence[Tree]) -> list[tuple[str, bool]]:
    return [(reference["uid"], bool(reference.get("controller"))) for reference in references]
