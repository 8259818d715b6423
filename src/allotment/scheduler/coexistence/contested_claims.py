"""Contested claims that stay allocated, so that another scheduler continues to see their devices as in use.

kube-scheduler (1.36) keeps the devices in use as a set without counts: when one of two claims on a device is freed it
considers the device free, even if the other claim still holds it, and allocates it to a third. A contested allocation
of this scheduler is therefore kept while another claim holds any of its devices. The claim is detached instead: it
loses its pod and its consumers, keeps its allocation, and gets a label. The pod gets a new claim with the same spec.
Once no other claim has held the devices for a while the detached claim is deleted.

Only a claim that was generated for the pod can be replaced. One that a user named, or that belongs to a group, is
freed.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import CLAIMS, PODS
from allotment.engine.cluster.inventory import Inventory
from allotment.model.contested_claims import LABEL, is_contested_tree
from allotment.model.generated_claims import EXTENDED_RESOURCE_ANNOTATION, POD_CLAIM_NAME
from allotment.model.meta import ObjectKey
from allotment.model.resource import FINALIZER
from allotment.model.trees import Tree
from allotment.scheduler.claim_ledger import CachedClaim, ClaimLedger
from allotment.scheduler.coexistence.contention import contests, devices_of
from allotment.scheduler.pods import QueuedPod

_log = logging.getLogger(__name__)

#: The annotation of claims generated from a template: the entry of the pod's claims.
CLAIM_ENTRY_ANNOTATION: Final = POD_CLAIM_NAME
#: The annotation of the last write that brought the scheduler's state up to date (see `stabilization`).
CHECKED_AT_ANNOTATION: Final = "allotment.dev/checked-at"
#: Seconds without another holder before a detached claim is deleted. A scheduler that wants the devices takes them
#: sooner.
_UNUSED_SECONDS: Final = 10.0
_CHECK_INTERVAL: Final = 2.0
_TRIES: Final = 5


class ContestedClaims:
    """Detaches contested claims and deletes them later."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        ledger: ClaimLedger,
        inventory: Inventory,
        claims: Cache[Any],
        pods: Cache[Any],
    ) -> None:
        self._client = client
        self._clock = clock
        self._ledger = ledger
        self._inventory = inventory
        self._claims = claims
        self._pods = pods
        self._free_since: dict[ObjectKey, float] = {}
        self._replacing: set[str] = set()

    def can_replace(self, claim: CachedClaim, pod: QueuedPod) -> bool:
        """Whether a claim was generated for this pod, so that the pod can get a new one."""
        annotations = claim.tree["metadata"].get("annotations") or ()
        return claim.is_controlled_by(pod.uid) and (CLAIM_ENTRY_ANNOTATION in annotations or claim.is_extended)

    def is_contested(self, claim: CachedClaim) -> bool:
        """Whether another claim holds a device of this claim; freeing it would then mislead the other scheduler."""
        return bool(contests(self._inventory, claim.key, claim.only_node() or ""))

    async def replace(self, claim: CachedClaim, pod: QueuedPod) -> bool:
        """Detach a claim and give its pod a new one; return False if that failed and the pod must be retried."""
        if claim.uid in self._replacing:
            return True
        self._replacing.add(claim.uid)
        try:
            await self._replace(claim, pod)
        except StatusError as error:
            if error.code != 404:
                _log.warning("claim %s could not be replaced: %s", claim.key, error)
                return False
        except Unreachable as error:
            _log.info("claim %s could not be replaced: %s", claim.key, error)
            return False
        finally:
            self._replacing.discard(claim.uid)
        return True

    async def _replace(self, claim: CachedClaim, pod: QueuedPod) -> None:
        entry = next((name for name, key in _claims_by_entry(pod.tree).items() if key == claim.key.name), "")
        if not entry:  # created for extended resources: the next attempt creates a new one
            await self.detach(claim)
            return
        metadata = claim.tree["metadata"]
        annotations = {
            name: value for name, value in (metadata.get("annotations") or {}).items() if name != CHECKED_AT_ANNOTATION
        }
        owners = [
            {"apiVersion": "v1", "kind": "Pod", "name": pod.key.name, "uid": pod.uid, "controller": True}
        ]  # fmt: skip
        fresh = {
            "metadata": {
                "generateName": metadata.get("generateName") or f"{pod.key.name}-{entry}-",
                "annotations": {**annotations, CLAIM_ENTRY_ANNOTATION: entry},
                "labels": {name: value for name, value in (metadata.get("labels") or {}).items() if name != LABEL},
                "ownerReferences": owners,
            },
            "spec": claim.tree["spec"],
        }  # fmt: skip
        name = self._existing_replacement(pod, entry)
        if not name:
            made = await self._client.create(CLAIMS, fresh, claim.key.namespace)
            self._claims.record_write(made)
            name = made["metadata"]["name"]
        await self.detach(claim)
        status = {"resourceClaimStatuses": [{"name": entry, "resourceClaimName": name}]}
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        self._pods.record_write(
            await self._client.patch(
                PODS, pod.key.name, patch, pod.key.namespace, kind="strategic", subresource="status"
            )
        )

    def _existing_replacement(self, pod: QueuedPod, entry: str) -> str:
        for item in self._claims.items():
            known = self._ledger.known.get(ObjectKey(item.namespace, item.name))
            if known is None or known.is_detached or known.key.namespace != pod.key.namespace or known.is_deleting:
                continue
            annotations = known.tree["metadata"].get("annotations") or {}
            if (
                annotations.get(CLAIM_ENTRY_ANNOTATION) == entry
                and known.is_controlled_by(pod.uid)
                and known.allocation is None
            ):
                return known.key.name
        return ""

    async def detach(self, claim: CachedClaim) -> None:
        """Remove a claim's owner and consumers and keep its allocation. Raises StatusError and Unreachable."""
        tree = claim.tree
        for attempt in range(_TRIES):
            if attempt:
                tree = await self._client.get(CLAIMS, claim.key.name, claim.key.namespace)
            if tree["metadata"].get("uid") != claim.uid:
                return
            try:
                if not is_contested_tree(tree):
                    tree = await self._client.update(CLAIMS, {**tree, "metadata": _detached_metadata(tree["metadata"])})
                    self._claims.record_write(tree)
                if (tree.get("status") or {}).get("reservedFor"):
                    status = {name: value for name, value in tree["status"].items() if name != "reservedFor"}
                    tree = await self._client.update(CLAIMS, {**tree, "status": status}, subresource="status")
                    self._claims.record_write(tree)
                return
            except StatusError as error:
                if error.code != 409 or attempt == _TRIES - 1:
                    raise

    async def run(self) -> None:
        """Delete detached claims whose devices have no other holder; runs until cancelled."""
        while True:
            await self._clock.sleep(_CHECK_INTERVAL)
            now = self._clock.seconds()
            detached = dict(self._ledger.detached)
            for key in self._free_since.keys() - detached.keys():
                del self._free_since[key]
            for key, claim in detached.items():
                if any(self._inventory.usage.holders(device) for device in devices_of(claim.tree)):
                    self._free_since.pop(key, None)
                elif now - self._free_since.setdefault(key, now) >= _UNUSED_SECONDS:
                    await self._delete(claim)

    async def _delete(self, claim: CachedClaim) -> None:
        key = claim.key
        for _ in range(_TRIES):
            try:
                tree = await self._client.get(CLAIMS, key.name, key.namespace)
                metadata, status = tree["metadata"], tree.get("status") or {}
                if metadata.get("uid") != claim.uid:
                    return
                if status.get("reservedFor"):
                    return  # it has a consumer nevertheless
                if status.get("allocation"):
                    tree = await self._client.update(CLAIMS, {**tree, "status": {}}, subresource="status")
                    metadata = tree["metadata"]
                if FINALIZER in (metadata.get("finalizers") or ()):
                    left = [name for name in metadata["finalizers"] if name != FINALIZER]
                    await self._client.update(CLAIMS, {**tree, "metadata": {**metadata, "finalizers": left}})
                await self._client.delete(CLAIMS, key.name, key.namespace, uid=claim.uid)
                return
            except StatusError as error:
                if error.code != 409:
                    return
            except Unreachable:
                await self._clock.sleep(0.5)


def _claims_by_entry(pod: Tree) -> dict[str, str]:
    """Return claim names by entry, for claims generated from templates."""
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return {status["name"]: status["resourceClaimName"] for status in statuses if status.get("resourceClaimName")}


def _detached_metadata(metadata: Tree) -> Tree:
    """Return the metadata of a claim after it is detached."""
    annotations = metadata.get("annotations") or {}
    return {
        **{name: value for name, value in metadata.items() if name != "ownerReferences"},
        "annotations": {
            name: value
            for name, value in annotations.items()
            if name not in (CLAIM_ENTRY_ANNOTATION, EXTENDED_RESOURCE_ANNOTATION)
        },
        "labels": {**(metadata.get("labels") or {}), LABEL: "true"},
    }
