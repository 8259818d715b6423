"""The scheduler's view of claims: their state in the cluster, and allocations that are decided but not written yet.

Every allocation is booked in the engine's inventory immediately, so that no two decisions of this process use a device
twice, however long the writes take. The cluster's state takes precedence: an allocation that another client wrote
replaces the booking, and one that was never written is freed by its planner.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from allotment.engine.cluster.inventory import Inventory
from allotment.engine.cluster.node_selection import NodeFacts
from allotment.model import contested_claims, pod_groups
from allotment.model.generated_claims import EXTENDED_RESOURCE_ANNOTATION
from allotment.model.meta import ObjectKey, ObjectMeta
from allotment.model.node_selectors import NodeSelector
from allotment.model.resource import FINALIZER, AllocationResult, ResourceClaim, ResourceClaimSpec
from allotment.model.trees import Tree, read_value, to_tree, to_value
from allotment.node_fit.pod_requirements import selector_matches

#: The effect of a change: ``freed`` devices became available, ``changed`` its status differs.
ClaimChange = Literal["created", "freed", "changed", "same"]

#: The feature that a node declares if its kubelet can skip node operations of drivers.
OPTIONAL_OPERATIONS: Final = "DRAOptionalNodeOperations"
#: Number of cached specs: claims of one template share one spec.
_MAX_SPECS: Final = 4096


class CachedClaim:
    """A claim as it is in the cluster."""

    __slots__ = ("_holding", "_selector", "allocation", "is_detached", "key", "tree", "uid", "value")

    def __init__(self, tree: Tree, spec: ResourceClaimSpec) -> None:
        metadata = tree["metadata"]
        self.key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
        self.uid: str = metadata.get("uid", "")
        self.tree = tree
        self.value = ResourceClaim(
            metadata=ObjectMeta(name=self.key.name, namespace=self.key.namespace, uid=self.uid), spec=spec
        )
        """The claim that the engine allocates: without status."""
        self.is_detached = contested_claims.is_contested_tree(tree)
        """Whether it was detached from its pod (see `coexistence.contested_claims`); its allocation is ignored."""
        self.allocation: Tree | None = (
            None if self.is_detached else (tree.get("status") or {}).get("allocation") or None
        )
        """``status.allocation``; None for a detached claim."""
        self._selector: NodeSelector | None = None
        self._holding: tuple[Tree, ResourceClaim] | None = None

    @property
    def users(self) -> list[Tree]:
        """``status.reservedFor``."""
        return (self.tree.get("status") or {}).get("reservedFor") or []

    @property
    def is_extended(self) -> bool:
        """Whether a scheduler created it for a pod's extended resources."""
        return EXTENDED_RESOURCE_ANNOTATION in (self.tree["metadata"].get("annotations") or ())

    @property
    def is_deleting(self) -> bool:
        """Whether its deletion was requested."""
        return "deletionTimestamp" in self.tree["metadata"]

    def is_reserved_for(self, uid: str, group: str = "") -> bool:
        """Whether a pod, or the pod group of this name, is among its consumers."""
        return pod_groups.is_consumer(self.users, uid, group)

    def is_used_only_by(self, uid: str) -> bool:
        """Whether it is allocated, and the claim controller frees its devices when this pod is gone."""
        finalizers = self.tree["metadata"].get("finalizers") or ()
        users = self.users if self.allocation is not None and FINALIZER in finalizers else []
        return bool(users) and all(user.get("uid") == uid for user in users)

    def is_usable_on(self, node: NodeFacts) -> bool:
        """Whether its devices can be used on a node."""
        allocation = self.allocation
        if self.skips_operations and OPTIONAL_OPERATIONS not in node.declared_features:
            return False
        tree = (allocation or {}).get("nodeSelector")
        if tree is None:
            return True
        if self._selector is None:
            self._selector = to_value(tree, NodeSelector)
        return selector_matches(self._selector, node)

    @property
    def skips_operations(self) -> bool:
        """Whether the kubelet must support that a driver skips preparing its devices (KEP-5945)."""
        results = ((self.allocation or {}).get("devices") or {}).get("results") or ()
        return any(result.get("skipNodeOperations") for result in results)

    def only_node(self) -> str | None:
        """Return the node that its devices are bound to, if its node selector names exactly one."""
        match ((self.allocation or {}).get("nodeSelector") or {}).get("nodeSelectorTerms"):
            case [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [str(name)]}], **more}] if (
                not more.get("matchExpressions")
            ):
                return name
        return None

    def planned(self, allocation: Tree) -> CachedClaim:
        """Return the claim as if an allocation that is planned for another pod were written."""
        status = {**(self.tree.get("status") or {}), "allocation": allocation}
        return CachedClaim({**self.tree, "status": status}, self.value.spec)

    def allocation_value(self) -> AllocationResult:
        """Return ``status.allocation`` as a value; without devices if the claim is not allocated."""
        if self.allocation is None:
            return AllocationResult()
        return self.with_allocation(self.allocation).status.allocation or AllocationResult()

    def with_allocation(self, allocation: Tree) -> ResourceClaim:
        """Return it as a value with consumers and an allocation that may not be written yet."""
        if self._holding is None or self._holding[0] is not allocation:
            tree = {
                "metadata": {"name": self.key.name, "namespace": self.key.namespace},
                "status": {"allocation": allocation, "reservedFor": self.users},
            }
            self._holding = (allocation, read_value(tree, ResourceClaim))
        return self._holding[1]

    def is_controlled_by(self, uid: str, group: str = "") -> bool:
        """Whether a pod, or the pod group of this name, is its controlling owner."""
        if group and pod_groups.owning_group(self.tree) == group:
            return True
        return any(
            owner.get("controller") and owner.get("kind") == "Pod" and owner.get("uid") == uid
            for owner in self.tree["metadata"].get("ownerReferences") or ()
        )


class ClaimLedger:
    """All claims by name, and the bookings."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self.known: dict[ObjectKey, CachedClaim] = {}
        self.detached: dict[ObjectKey, CachedClaim] = {}
        """Contested claims that were detached from their pods."""
        self.in_flight: dict[ObjectKey, str] = {}
        """Claims that are being allocated, with the uid of the pod."""
        self.extended_claims: dict[str, ObjectKey] = {}
        """Claims created for extended resources, by pod uid."""
        self.unusable: set[str] = set()
        """Uids of claims whose devices failed to become ready; the next attempt frees them."""
        self._booked: dict[ObjectKey, Tree] = {}
        self._specs: dict[bytes, ResourceClaimSpec] = {}
        self._kept = 0
        self.version = 0
        """Incremented with every change of the bookings."""

    # --- cluster state -------------------------------------------------------------------------------------------

    def put(self, tree: Tree) -> ClaimChange:
        """Add or update a claim."""
        claim = CachedClaim(tree, self.spec(tree.get("spec") or {}))
        before = self.known.get(claim.key)
        self.known[claim.key] = claim
        self.detached.pop(claim.key, None)
        if claim.is_detached:
            self.detached[claim.key] = claim
        self._forget_extended(before)  # a detached claim no longer belongs to the pod
        if claim.is_extended:
            for owner in tree["metadata"].get("ownerReferences") or ():
                self.extended_claims[owner["uid"]] = claim.key
        allocation = claim.allocation
        if allocation is None:
            if claim.key in self.in_flight or not self._unbook(claim.key):
                if before is None:
                    return "created"
                return "same" if before.tree.get("status") == tree.get("status") else "changed"
            return "freed"
        if self._booked.get(claim.key) != allocation:
            freed = self._unbook(claim.key)
            self._book(claim.key, to_value(allocation, AllocationResult), allocation)
            return "freed" if freed else "changed"
        return "same" if before is not None and before.tree.get("status") == tree.get("status") else "changed"

    def remove(self, key: ObjectKey) -> bool:
        """Remove a deleted claim; return whether that freed devices."""
        claim = self.known.pop(key, None)
        self.detached.pop(key, None)
        self._forget_extended(claim)
        if claim is not None:
            self.unusable.discard(claim.uid)
        return key not in self.in_flight and self._unbook(key)

    def frees_claims(self, uid: str, keys: Iterable[ObjectKey]) -> bool:
        """Whether the devices of a claim are freed when the pod is gone that references the claims of these keys."""
        extended = self.extended_claims.get(uid)
        claims = map(self.known.get, keys if extended is None else (*keys, extended))
        return any(claim is not None and claim.is_used_only_by(uid) for claim in claims)

    def _forget_extended(self, claim: CachedClaim | None) -> None:
        if claim is None or not claim.is_extended:
            return
        for owner in claim.tree["metadata"].get("ownerReferences") or ():
            if self.extended_claims.get(owner["uid"]) == claim.key:
                del self.extended_claims[owner["uid"]]

    def spec(self, tree: Tree) -> ResourceClaimSpec:
        """Return the spec as a value, the same object for equal trees."""
        key = msgspec.json.encode(tree)
        found = self._specs.get(key)
        if found is None:
            if len(self._specs) >= _MAX_SPECS:
                self._specs.clear()
            found = self._specs[key] = read_value(tree, ResourceClaimSpec)
        return found

    # --- planned allocations--------------------------------------------------------------------------------------

    def plan(self, key: ObjectKey, uid: str, allocation: AllocationResult) -> Tree:
        """Book an allocation for a claim on behalf of a pod; return the allocation as it will be written."""
        tree = to_tree(allocation)
        self.in_flight[key] = uid
        self._book(key, allocation, tree)
        return tree

    def planned_allocation(self, key: ObjectKey) -> Tree:
        """Return the allocation booked for a claim."""
        return self._booked[key]

    def update_plan(self, key: ObjectKey, tree: Tree) -> None:
        """Replace the tree of a planned allocation, for example to add its timestamp; the devices stay the same."""
        if key in self._booked:
            self._booked[key] = tree

    def end_plan(self, key: ObjectKey) -> None:
        """End a plan after its write succeeded or was cancelled: from now on only the cluster's state counts."""
        if self.in_flight.pop(key, None) is None:
            return
        claim = self.known.get(key)
        allocation = claim.allocation if claim is not None else None
        if allocation is None:
            self._unbook(key)
        elif self._booked.get(key) != allocation:
            self._unbook(key)
            self._book(key, to_value(allocation, AllocationResult), allocation)

    def keep_booked(self, claim: CachedClaim) -> ObjectKey:
        """Keep the devices that a claim has just lost booked; return the key for `release`.

        No object can have a name like that key.
        """
        self._kept += 1
        key = ObjectKey(claim.key.namespace, f"{claim.key.name}/{self._kept}")
        allocation = claim.allocation
        assert allocation is not None
        self._book(key, to_value(allocation, AllocationResult), allocation)
        return key

    def release(self, key: ObjectKey) -> None:
        """Free devices that were kept booked."""
        self._unbook(key)

    def _book(self, key: ObjectKey, allocation: AllocationResult, tree: Tree) -> None:
        self._inventory.allocate(key, allocation)
        self._booked[key] = tree
        self.version += 1

    def _unbook(self, key: ObjectKey) -> bool:
        if self._booked.pop(key, None) is None:
            return False
        self._inventory.free(key)
        self.version += 1
        return True

    def allocated_claims(self) -> Iterable[ResourceClaim]:
        """Return the claims that hold devices, with allocation and consumers."""
        for key, tree in self._booked.items():
            claim = self.known.get(key)
            if claim is not None:
                yield claim.with_allocation(tree)
