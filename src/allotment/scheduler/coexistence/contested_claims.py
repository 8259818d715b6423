"""Claims that were contested and stay allocated, so that another scheduler goes on seeing the device as taken.

kube-scheduler (1.36) keeps the devices in use as a set, not as a count: when one of two claims on a device is freed it
takes the device for free, whoever holds it still, and gives it to a third. So a contested allocation of ours is not
taken back while somebody else holds any of its devices. The claim is set aside instead: it is no pod's any more, keeps
its allocation and gets a label. The pod gets another claim of the same spec in its place. Once nobody has held its
devices for a while the claim goes.

Only a claim that was made for the pod can be replaced. One that a user named, or that belongs to a group, is freed.
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
from allotment.model.generated_claims import POD_CLAIM_NAME
from allotment.model.meta import ObjectKey
from allotment.model.resource import FINALIZER
from allotment.model.trees import Tree
from allotment.scheduler.claim_ledger import EXTENDED, KnownClaim, Ledger
from allotment.scheduler.coexistence.contention import contests, devices_of
from allotment.scheduler.pods import WaitingPod

_log = logging.getLogger(__name__)

#: On claims made from a template: the entry of the pod's claims that it is for.
ENTRY: Final = POD_CLAIM_NAME
#: Seconds for which nobody must have held a guard's devices. A scheduler that wants them takes them sooner.
_FREE_SECONDS: Final = 10.0
_EVERY_SECONDS: Final = 2.0
_TRIES: Final = 5


class Guards:
    """Sets contested claims aside, and lets them go."""

    def __init__(
        self, client: Client, clock: Clock, ledger: Ledger, inventory: Inventory, claims: Cache[Any], pods: Cache[Any]
    ) -> None:
        self._client = client
        self._clock = clock
        self._ledger = ledger
        self._inventory = inventory
        self._claims = claims
        self._pods = pods
        self._free_since: dict[ObjectKey, float] = {}
        self._replacing: set[str] = set()

    def can_replace(self, claim: KnownClaim, pod: WaitingPod) -> bool:
        """Whether a claim was made for this pod, so that it can get another."""
        annotations = claim.tree["metadata"].get("annotations") or ()
        return claim.is_made_for(pod.uid) and (ENTRY in annotations or claim.is_extended)

    def is_contested(self, claim: KnownClaim) -> bool:
        """Whether somebody else holds a device of a claim as well: then to free it would mislead them."""
        return bool(contests(self._inventory, claim.key, claim.only_node() or ""))

    async def replace(self, claim: KnownClaim, pod: WaitingPod) -> bool:
        """Set a claim aside, and give its pod another; False if that cannot be done now: the pod must come up again."""
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

    async def _replace(self, claim: KnownClaim, pod: WaitingPod) -> None:
        entry = next((name for name, key in _entries(pod.tree).items() if key == claim.key.name), "")
        if not entry:  # made for extended resources: the next attempt makes another
            await self.set_aside(claim)
            return
        metadata = claim.tree["metadata"]
        owners = [
            {"apiVersion": "v1", "kind": "Pod", "name": pod.key.name, "uid": pod.uid, "controller": True}
        ]  # fmt: skip
        fresh = {
            "metadata": {
                "generateName": metadata.get("generateName") or f"{pod.key.name}-{entry}-",
                "annotations": {**(metadata.get("annotations") or {}), ENTRY: entry},
                "labels": {name: value for name, value in (metadata.get("labels") or {}).items() if name != LABEL},
                "ownerReferences": owners,
            },
            "spec": claim.tree["spec"],
        }  # fmt: skip
        name = self._made_before(pod, entry)
        if not name:
            made = await self._client.create(CLAIMS, fresh, claim.key.namespace)
            self._claims.noted(made)
            name = made["metadata"]["name"]
        await self.set_aside(claim)
        status = {"resourceClaimStatuses": [{"name": entry, "resourceClaimName": name}]}
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        self._pods.noted(
            await self._client.patch(
                PODS, pod.key.name, patch, pod.key.namespace, kind="strategic", subresource="status"
            )
        )

    def _made_before(self, pod: WaitingPod, entry: str) -> str:
        for item in self._claims.items():
            known = self._ledger.known.get(ObjectKey(item.namespace, item.name))
            if known is None or known.guards or known.key.namespace != pod.key.namespace or known.deleting:
                continue
            annotations = known.tree["metadata"].get("annotations") or {}
            if annotations.get(ENTRY) == entry and known.is_made_for(pod.uid) and known.allocation is None:
                return known.key.name
        return ""

    async def set_aside(self, claim: KnownClaim) -> None:
        """Make a claim nobody's, with its allocation as it is. Raises StatusError and Unreachable."""
        tree = claim.tree
        for attempt in range(_TRIES):
            if attempt:
                tree = await self._client.get(CLAIMS, claim.key.name, claim.key.namespace)
            if tree["metadata"].get("uid") != claim.uid:
                return
            try:
                if not is_contested_tree(tree):
                    tree = await self._client.update(CLAIMS, {**tree, "metadata": _nobodys(tree["metadata"])})
                    self._claims.noted(tree)
                if (tree.get("status") or {}).get("reservedFor"):
                    status = {name: value for name, value in tree["status"].items() if name != "reservedFor"}
                    tree = await self._client.update(CLAIMS, {**tree, "status": status}, subresource="status")
                    self._claims.noted(tree)
                return
            except StatusError as error:
                if error.code != 409 or attempt == _TRIES - 1:
                    raise

    async def run(self) -> None:
        """Let guards go that guard nothing any more, for ever."""
        while True:
            await self._clock.sleep(_EVERY_SECONDS)
            now = self._clock.seconds()
            there = dict(self._ledger.guards)
            for key in self._free_since.keys() - there.keys():
                del self._free_since[key]
            for key, claim in there.items():
                if any(self._inventory.usage.holders(device) for device in devices_of(claim.tree)):
                    self._free_since.pop(key, None)
                elif now - self._free_since.setdefault(key, now) >= _FREE_SECONDS:
                    await self._let_go(claim)

    async def _let_go(self, claim: KnownClaim) -> None:
        key = claim.key
        for _ in range(_TRIES):
            try:
                tree = await self._client.get(CLAIMS, key.name, key.namespace)
                metadata, status = tree["metadata"], tree.get("status") or {}
                if metadata.get("uid") != claim.uid:
                    return
                if status.get("reservedFor"):
                    return  # somebody uses it all the same
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


def _entries(pod: Tree) -> dict[str, str]:
    """Claim by entry, for claims made from templates."""
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return {status["name"]: status["resourceClaimName"] for status in statuses if status.get("resourceClaimName")}


def _nobodys(metadata: Tree) -> Tree:
    """The metadata of a claim that is set aside."""
    annotations = metadata.get("annotations") or {}
    return {
        **{name: value for name, value in metadata.items() if name != "ownerReferences"},
        "annotations": {name: value for name, value in annotations.items() if name not in (ENTRY, EXTENDED)},
        "labels": {**(metadata.get("labels") or {}), LABEL: "true"},
    }
