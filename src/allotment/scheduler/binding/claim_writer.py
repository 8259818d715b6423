"""Writes finalizer, allocation and reservation of claims, and reverts them if the binding fails.

Every write carries the resourceVersion of the state that it was decided on; on a conflict the claim is read again and
the decision is checked against it.
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
from allotment.scheduler.binding.errors import PRE_BIND, BindError
from allotment.scheduler.claim_ledger import CachedClaim, ClaimLedger
from allotment.scheduler.pod_groups import PodGroups
from allotment.scheduler.pods import QueuedPod

#: Retries of a write after conflicts.
_RETRIES: Final = 5


class ClaimWriter:
    """Writes claims and updates ``claim_cache`` with each response."""

    def __init__(
        self,
        client: Client,
        ledger: ClaimLedger,
        groups: PodGroups,
        features: Features,
        clock: Clock,
        claim_cache: Cache[Any],
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._groups = groups
        self._clock = clock
        self._claim_cache = claim_cache
        self._stamped = features.enabled("DRADeviceBindingConditions")

    @property
    def revision(self) -> int:
        """The revision up to which all claims are known."""
        return self._claim_cache.revision

    # --- writing -----------------------------------------------------------------------------------------------------

    async def create(self, tree: Tree, namespace: str) -> CachedClaim:
        """Create a claim. Raises StatusError and Unreachable."""
        made = await self._client.create(CLAIMS, tree, namespace)
        self._claim_cache.record_write(made)
        return CachedClaim(made, self._ledger.spec(made.get("spec") or {}))

    async def write(self, claim: CachedClaim, pod: QueuedPod, allocation: Tree | None) -> str:
        """Write finalizer, allocation and reservation of one claim; return its new resourceVersion."""
        try:
            user = self._groups.consumer(pod, claim.key)
        except LookupError as error:
            raise BindError(f"{PRE_BIND}{error}") from error
        known = self._ledger.known.get(claim.key)
        tree = (known or claim).tree
        operation = "add reservation to claim"
        conflicts, again = 0, False
        while True:
            try:
                if again:
                    operation = "get updated claim"
                    tree = await self._client.get(CLAIMS, claim.key.name, claim.key.namespace)
                if self._is_done(claim, tree, pod, allocation):
                    break
                if allocation is not None and FINALIZER not in (tree["metadata"].get("finalizers") or ()):
                    operation = "add finalizer to claim"
                    metadata = tree["metadata"]
                    finalizers = [*(metadata.get("finalizers") or ()), FINALIZER]
                    tree = await self._client.update(
                        CLAIMS, {**tree, "metadata": {**metadata, "finalizers": finalizers}}
                    )
                operation = "add allocation and reservation to claim" if allocation else "add reservation to claim"
                tree = await self._client.update(CLAIMS, self._reserved(tree, user, allocation), subresource="status")
                break
            except StatusError as error:
                if error.code == 404:
                    raise BindError(f"{PRE_BIND}claim {claim.key} got deleted in the meantime") from error
                conflicts += 1
                if error.code != 409 or conflicts > _RETRIES:
                    raise BindError(f"{PRE_BIND}{operation} {claim.key}: {error}") from error
            except Unreachable:
                await self._clock.sleep(0.5)
            again = True
        self._claim_cache.record_write(tree)
        return str(tree["metadata"].get("resourceVersion", ""))

    def _is_done(self, claim: CachedClaim, tree: Tree, pod: QueuedPod, allocation: Tree | None) -> bool:
        """Whether an earlier write, whose response was lost, succeeded. Raises BindError if it never can."""
        metadata, status = tree["metadata"], tree.get("status") or {}
        stored = status.get("allocation")
        decided = allocation if allocation is not None else claim.allocation
        if "deletionTimestamp" in metadata or metadata.get("uid", "") != claim.uid:
            raise BindError(f"{PRE_BIND}claim {claim.key} got deleted in the meantime")
        if stored and decided and _devices(stored) != _devices(decided):
            raise BindError(f"{PRE_BIND}claim {claim.key} got allocated elsewhere in the meantime")
        if stored and is_consumer(status.get("reservedFor") or (), pod.uid, self._groups.of(pod.tree)):
            return True
        if allocation is not None and stored:
            raise BindError(f"{PRE_BIND}claim {claim.key} got allocated elsewhere in the meantime")
        if allocation is None and not stored:
            raise BindError(f"{PRE_BIND}claim {claim.key} got deallocated elsewhere in the meantime")
        return False

    def _reserved(self, tree: Tree, user: Tree, allocation: Tree | None) -> Tree:
        status = tree.get("status") or {}
        updated = allocation if allocation is not None else status["allocation"]
        # Kubernetes adds a timestamp to every allocation that it reserves, even to one written by hand without it
        # (which the API server then rejects, because an allocation is immutable).
        if self._stamped and "allocationTimestamp" not in updated:
            updated = {**updated, "allocationTimestamp": self._clock.now()}
        if allocation is not None:
            self._ledger.update_plan(
                ObjectKey(tree["metadata"].get("namespace", ""), tree["metadata"]["name"]), updated
            )
        users = status.get("reservedFor") or []
        if all(other.get("uid") != user["uid"] for other in users):
            users = [*users, user]
        return {**tree, "status": {**status, "allocation": updated, "reservedFor": users}}

    # --- reverting ---------------------------------------------------------------------------------------------------

    async def revert(self, key: ObjectKey, pod: QueuedPod, allocated_here: bool) -> None:
        """Remove a reservation, and an allocation made for this pod that has no other consumer.

        The reservation for a pod group stays: other pods of the group may be about to use it.
        """

        def undone(status: Tree) -> Tree | None:
            users = status.get("reservedFor") or []
            left = [user for user in users if user.get("uid") != pod.uid]
            if len(left) == len(users) and not (allocated_here and not left and status.get("allocation")):
                return None
            if allocated_here and not left:
                return {k: v for k, v in status.items() if k not in ("allocation", "reservedFor", "devices")}
            return {**status, "reservedFor": left}

        known = self._ledger.known.get(key)
        if known is not None and known.is_extended:
            await self._change_status(key, undone)
            await self.delete(known)
        elif known is not None:
            await self._change_status(key, undone)

    async def discard(self, claim: CachedClaim) -> bool:
        """Delete a claim for extended resources that an earlier attempt left behind; return whether that succeeded."""
        done = await self._change_status(claim.key, lambda status: {} if status else None)
        return done and await self.delete(claim)

    async def deallocate(self, claim: CachedClaim, consumer: str) -> bool:
        """Free a claim whose devices cannot be used by its consumer (a uid), unless it has another one; return the
        success.
        """

        def freed(status: Tree) -> Tree | None:
            if any(user.get("uid") != consumer for user in status.get("reservedFor") or ()):
                return None
            return {k: v for k, v in status.items() if k not in ("allocation", "reservedFor", "devices")}

        done = await self._change_status(claim.key, freed)
        if done:
            self._ledger.unusable.discard(claim.uid)
        return done

    async def unreserve(self, claim: CachedClaim, group: str) -> bool:
        """Remove a group's reservation, so that the claim can be freed; meanwhile no pod uses it. Return whether that
        succeeded.
        """

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
        """Write a claim's status unless ``change`` returns None; return False if the server rejects it."""
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
                self._claim_cache.record_write(
                    await self._client.update(CLAIMS, {**tree, "status": status}, subresource="status")
                )
                return True
            except StatusError as error:
                if error.code != 409:
                    return error.code == 404
            except Unreachable:
                await self._clock.sleep(0.5)
        return False

    async def delete(self, claim: CachedClaim) -> bool:
        """Delete an unused claim for extended resources, its finalizer first; return whether that succeeded."""
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
    """Return the devices of an allocation with their requests, without what only decides where the pod can run."""
    results = (allocation.get("devices") or {}).get("results") or ()
    return [
        {part: result.get(part) for part in ("request", "driver", "pool", "device", "shareID")} for result in results
    ]
