"""Writes claims for a decision: finalizer, allocation and reservation; and takes back what came to nothing.

Every write names the state that it was decided on (resourceVersion); on a conflict the claim is read again and the
decision checked against it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import CLAIMS
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.model.pod_groups import is_consumer, is_group
from allotment.model.resource import FINALIZER
from allotment.model.trees import Tree
from allotment.scheduler.binding.errors import PRE_BIND, NotBound
from allotment.scheduler.claim_ledger import KnownClaim, Ledger
from allotment.scheduler.pod_groups import Grouping
from allotment.scheduler.pods import WaitingPod

#: How often a write that met a conflict is tried again.
_RETRIES: Final = 5


class Claims:
    """Claims as they are written; ``known``: the cache that hears of it at once."""

    def __init__(
        self, client: Client, ledger: Ledger, groups: Grouping, features: Features, clock: Clock, known: Cache[Any]
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._groups = groups
        self._clock = clock
        self._known = known
        self._stamped = features.enabled("DRADeviceBindingConditions")

    @property
    def revision(self) -> int:
        """Up to which revision all claims are known."""
        return self._known.revision

    # --- giving ------------------------------------------------------------------------------------------------------

    async def create(self, tree: Tree, namespace: str) -> KnownClaim:
        """Make a claim. Raises StatusError and Unreachable."""
        made = await self._client.create(CLAIMS, tree, namespace)
        self._known.noted(made)
        return KnownClaim(made, self._ledger.spec(made.get("spec") or {}))

    async def write(self, claim: KnownClaim, pod: WaitingPod, allocation: Tree | None) -> str:
        """Finalizer, allocation and reservation of one claim; returns the revision that it has then."""
        try:
            user = self._groups.user(pod, claim.key)
        except LookupError as error:
            raise NotBound(f"{PRE_BIND}{error}") from error
        known = self._ledger.known.get(claim.key)
        tree = (known or claim).tree
        doing = "add reservation to claim"
        conflicts, again = 0, False
        while True:
            try:
                if again:
                    doing = "get updated claim"
                    tree = await self._client.get(CLAIMS, claim.key.name, claim.key.namespace)
                if self._is_done(claim, tree, pod, allocation):
                    break
                if allocation is not None and FINALIZER not in (tree["metadata"].get("finalizers") or ()):
                    doing = "add finalizer to claim"
                    metadata = tree["metadata"]
                    finalizers = [*(metadata.get("finalizers") or ()), FINALIZER]
                    tree = await self._client.update(
                        CLAIMS, {**tree, "metadata": {**metadata, "finalizers": finalizers}}
                    )
                doing = "add allocation and reservation to claim" if allocation else "add reservation to claim"
                tree = await self._client.update(CLAIMS, self._reserved(tree, user, allocation), subresource="status")
                break
            except StatusError as error:
                if error.code == 404:
                    raise NotBound(f"{PRE_BIND}claim {claim.key} got deleted in the meantime") from error
                conflicts += 1
                if error.code != 409 or conflicts > _RETRIES:
                    raise NotBound(f"{PRE_BIND}{doing} {claim.key}: {error}") from error
            except Unreachable:
                await self._clock.sleep(0.5)
            again = True
        self._known.noted(tree)
        return str(tree["metadata"].get("resourceVersion", ""))

    def _is_done(self, claim: KnownClaim, tree: Tree, pod: WaitingPod, allocation: Tree | None) -> bool:
        """Whether the claim has what is to be written, from a write whose answer was lost; raises if it never can."""
        metadata, status = tree["metadata"], tree.get("status") or {}
        there = status.get("allocation")
        decided = allocation if allocation is not None else claim.allocation
        if "deletionTimestamp" in metadata or metadata.get("uid", "") != claim.uid:
            raise NotBound(f"{PRE_BIND}claim {claim.key} got deleted in the meantime")
        if there and decided and _devices(there) != _devices(decided):
            raise NotBound(f"{PRE_BIND}claim {claim.key} got allocated elsewhere in the meantime")
        if there and is_consumer(status.get("reservedFor") or (), pod.uid, self._groups.of(pod.tree)):
            return True
        if allocation is not None and there:
            raise NotBound(f"{PRE_BIND}claim {claim.key} got allocated elsewhere in the meantime")
        if allocation is None and not there:
            raise NotBound(f"{PRE_BIND}claim {claim.key} got deallocated elsewhere in the meantime")
        return False

    def _reserved(self, tree: Tree, user: Tree, allocation: Tree | None) -> Tree:
        status = tree.get("status") or {}
        there = allocation if allocation is not None else status["allocation"]
        # Kubernetes stamps every allocation that it reserves, also one made by hand without (which the API server
        # then refuses, for an allocation cannot change).
        if self._stamped and "allocationTimestamp" not in there:
            there = {**there, "allocationTimestamp": self._clock.now()}
        if allocation is not None:
            self._ledger.stamp(ObjectKey(tree["metadata"].get("namespace", ""), tree["metadata"]["name"]), there)
        users = status.get("reservedFor") or []
        if all(other.get("uid") != user["uid"] for other in users):
            users = [*users, user]
        return {**tree, "status": {**status, "allocation": there, "reservedFor": users}}

    # --- taking back -------------------------------------------------------------------------------------------------

    async def take_back(self, key: ObjectKey, pod: WaitingPod, ours: bool) -> None:
        """Undo a reservation, and an allocation that was made for this pod and that nobody else uses.

        What a group has stays: others of it may be on their way.
        """

        def undone(status: Tree) -> Tree | None:
            users = status.get("reservedFor") or []
            left = [user for user in users if user.get("uid") != pod.uid]
            if len(left) == len(users) and not (ours and not left and status.get("allocation")):
                return None
            if ours and not left:
                return {k: v for k, v in status.items() if k not in ("allocation", "reservedFor", "devices")}
            return {**status, "reservedFor": left}

        known = self._ledger.known.get(key)
        if known is not None and known.is_extended:
            await self._change_status(key, undone)
            await self.delete(known)
        elif known is not None:
            await self._change_status(key, undone)

    async def discard(self, claim: KnownClaim) -> bool:
        """Delete a claim for extended resources that an earlier attempt of its pod left behind; whether it is done."""
        done = await self._change_status(claim.key, lambda status: {} if status else None)
        return done and await self.delete(claim)

    async def deallocate(self, claim: KnownClaim, pod: WaitingPod) -> bool:
        """Free a claim whose devices the pod cannot use where they are, if nobody else uses it; whether it is done."""

        def freed(status: Tree) -> Tree | None:
            if any(user.get("uid") != pod.uid for user in status.get("reservedFor") or ()):
                return None
            return {k: v for k, v in status.items() if k not in ("allocation", "reservedFor", "devices")}

        done = await self._change_status(claim.key, freed)
        if done:
            self._ledger.unusable.discard(claim.uid)
        return done

    async def unreserve(self, claim: KnownClaim, group: str) -> bool:
        """Take a claim from a group, so that it can be freed; meanwhile nobody comes to it. Whether it is done."""

        def left(status: Tree) -> Tree | None:
            users = status.get("reservedFor") or []
            others = [user for user in users if not (is_group(user) and user["name"] == group)]
            return {**status, "reservedFor": others} if len(others) < len(users) else None

        broken = claim.uid in self._ledger.unusable
        self._ledger.unusable.add(claim.uid)
        done = await self._change_status(claim.key, left)
        if not broken:
            self._ledger.unusable.discard(claim.uid)
        return done

    async def _change_status(self, key: ObjectKey, change: Callable[[Tree], Tree | None]) -> bool:
        """Write a claim's status anew, unless ``change`` gives None; False if the server does not want it."""
        known = self._ledger.known.get(key)
        if known is None:
            return True
        tree = known.tree
        for attempt in range(_RETRIES + 1):
            try:
                if attempt:
                    tree = await self._client.get(CLAIMS, key.name, key.namespace)
                status = change(tree.get("status") or {})
                if status is None or tree["metadata"].get("uid", "") != known.uid:
                    return True
                self._known.noted(await self._client.update(CLAIMS, {**tree, "status": status}, subresource="status"))
                return True
            except StatusError as error:
                if error.code != 409:
                    return error.code == 404
            except Unreachable:
                await self._clock.sleep(0.5)
        return False

    async def delete(self, claim: KnownClaim) -> bool:
        """Delete a claim that was made for extended resources and is not used; the finalizer goes first. Whether it is
        done."""
        for _ in range(_RETRIES + 1):
            try:
                tree = await self._client.get(CLAIMS, claim.key.name, claim.key.namespace)
                metadata = tree["metadata"]
                if metadata.get("uid", "") != claim.uid:
                    return True
                if FINALIZER in (metadata.get("finalizers") or ()):
                    left = [name for name in metadata["finalizers"] if name != FINALIZER]
                    await self._client.update(CLAIMS, {**tree, "metadata": {**metadata, "finalizers": left}})
                await self._client.delete(CLAIMS, claim.key.name, claim.key.namespace, uid=claim.uid)
                return True
            except StatusError as error:
                if error.code != 409:
                    return error.code == 404
            except Unreachable:
                await self._clock.sleep(0.5)
        return False


def _devices(allocation: Tree) -> list[Tree]:
    """Which devices an allocation names, and for what: where they are decides where the pod can run."""
    results = (allocation.get("devices") or {}).get("results") or ()
    return [
        {part: result.get(part) for part in ("request", "driver", "pool", "device", "shareID")} for result in results
    ]
