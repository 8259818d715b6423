"""The claims as the scheduler sees them: what the cluster says of each, and what is decided but not written yet.

Whatever a claim holds or is about to hold is booked in the engine's inventory at once, so that no two decisions of this
process use a device twice however long the writes take. What the cluster says always wins in the end: an allocation
that somebody else wrote replaces the booking, and one that never came is given back by whoever planned it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from allotment.engine.cluster.inventory import Inventory
from allotment.engine.cluster.node_selection import NodeFacts
from allotment.model import contested_claims, pod_groups
from allotment.model.meta import ObjectKey, ObjectMeta
from allotment.model.node_selectors import NodeSelector
from allotment.model.resource import AllocationResult, ResourceClaim, ResourceClaimSpec
from allotment.model.trees import Tree, read_value, to_tree, to_value
from allotment.node_fit.pod_requirements import admits

#: What became of a claim: ``freed`` its devices can be used by others, ``changed`` something of its status.
Became = Literal["created", "freed", "changed", "same"]

#: The annotation of claims that a scheduler made for extended resources.
EXTENDED: Final = "resource.kubernetes.io/extended-resource-claim"
#: Specs that are kept: claims of one template have one spec.
_SPECS: Final = 4096


class KnownClaim:
    """A claim as the cluster has it."""

    __slots__ = ("_holding", "_selector", "allocation", "guards", "key", "tree", "uid", "value")

    def __init__(self, tree: Tree, spec: ResourceClaimSpec) -> None:
        metadata = tree["metadata"]
        self.key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
        self.uid: str = metadata.get("uid", "")
        self.tree = tree
        self.value = ResourceClaim(
            metadata=ObjectMeta(name=self.key.name, namespace=self.key.namespace, uid=self.uid), spec=spec
        )
        """What the engine is asked about: without status."""
        self.guards = contested_claims.is_contested_tree(tree)
        """Whether it was contested and is nobody's any more (see `beside.guards`); here it holds no devices."""
        self.allocation: Tree | None = None if self.guards else (tree.get("status") or {}).get("allocation") or None
        """``status.allocation``; none of a claim that only guards."""
        self._selector: NodeSelector | None = None
        self._holding: tuple[Tree, ResourceClaim] | None = None

    @property
    def users(self) -> list[Tree]:
        """``status.reservedFor``."""
        return (self.tree.get("status") or {}).get("reservedFor") or []

    @property
    def is_extended(self) -> bool:
        """Whether a scheduler made it for a pod's extended resources."""
        return EXTENDED in (self.tree["metadata"].get("annotations") or ())

    @property
    def deleting(self) -> bool:
        """Whether somebody asked for its deletion."""
        return "deletionTimestamp" in self.tree["metadata"]

    def is_reserved_for(self, uid: str, group: str = "") -> bool:
        """Whether a pod, or a group of this name, is among its users."""
        return pod_groups.is_consumer(self.users, uid, group)

    def reaches(self, node: NodeFacts) -> bool:
        """Whether the devices that it has can be used on a node."""
        allocation = self.allocation
        tree = (allocation or {}).get("nodeSelector")
        if tree is None:
            return True
        if self._selector is None:
            self._selector = to_value(tree, NodeSelector)
        return admits(self._selector, node)

    def only_node(self) -> str | None:
        """The node that its devices are bound to, where that can be told without looking at nodes."""
        match ((self.allocation or {}).get("nodeSelector") or {}).get("nodeSelectorTerms"):
            case [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [str(name)]}], **more}] if (
                not more.get("matchExpressions")
            ):
                return name
        return None

    def holding(self, allocation: Tree) -> ResourceClaim:
        """As a value with users and an allocation, which may not be written yet."""
        if self._holding is None or self._holding[0] is not allocation:
            tree = {
                "metadata": {"name": self.key.name, "namespace": self.key.namespace},
                "status": {"allocation": allocation, "reservedFor": self.users},
            }
            self._holding = (allocation, read_value(tree, ResourceClaim))
        return self._holding[1]

    def is_made_for(self, uid: str, group: str = "") -> bool:
        """Whether a pod, or a group of this name, is its controlling owner."""
        if group and pod_groups.owning_group(self.tree) == group:
            return True
        return any(
            owner.get("controller") and owner.get("kind") == "Pod" and owner.get("uid") == uid
            for owner in self.tree["metadata"].get("ownerReferences") or ()
        )


class Ledger:
    """All claims by name, and the bookings."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self.known: dict[ObjectKey, KnownClaim] = {}
        self.guards: dict[ObjectKey, KnownClaim] = {}
        """Those that guard."""
        self.in_flight: dict[ObjectKey, str] = {}
        """Claims that are being allocated, and the pod (uid) for which."""
        self.extended: dict[str, ObjectKey] = {}
        """Claims made for pods' extended resources, by the pod (uid)."""
        self.unusable: set[str] = set()
        """Claims (uids) whose devices failed to get ready; they are freed by the next attempt."""
        self._booked: dict[ObjectKey, Tree] = {}
        self._specs: dict[bytes, ResourceClaimSpec] = {}
        self._lingering = 0
        self.version = 0
        """Grows with every change of what is booked."""

    # --- what the cluster says -----------------------------------------------------------------------------------

    def put(self, tree: Tree) -> Became:
        """A claim is there, or has changed."""
        claim = KnownClaim(tree, self.spec(tree.get("spec") or {}))
        before = self.known.get(claim.key)
        self.known[claim.key] = claim
        self.guards.pop(claim.key, None)
        if claim.guards:
            self.guards[claim.key] = claim
        self._forget_extended(before)  # one that was set aside is the pod's no more
        if claim.is_extended:
            for owner in tree["metadata"].get("ownerReferences") or ():
                self.extended[owner["uid"]] = claim.key
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
        """A claim is gone; whether that freed anything."""
        claim = self.known.pop(key, None)
        self.guards.pop(key, None)
        self._forget_extended(claim)
        if claim is not None:
            self.unusable.discard(claim.uid)
        return key not in self.in_flight and self._unbook(key)

    def _forget_extended(self, claim: KnownClaim | None) -> None:
        if claim is None or not claim.is_extended:
            return
        for owner in claim.tree["metadata"].get("ownerReferences") or ():
            if self.extended.get(owner["uid"]) == claim.key:
                del self.extended[owner["uid"]]

    def spec(self, tree: Tree) -> ResourceClaimSpec:
        """The spec as a value, the same one for equal trees."""
        key = msgspec.json.encode(tree)
        found = self._specs.get(key)
        if found is None:
            if len(self._specs) >= _SPECS:
                self._specs.clear()
            found = self._specs[key] = read_value(tree, ResourceClaimSpec)
        return found

    # --- what is planned -----------------------------------------------------------------------------------------

    def plan(self, key: ObjectKey, uid: str, allocation: AllocationResult) -> Tree:
        """Book what a claim is going to get, for the sake of a pod; returns it as it will be written."""
        tree = to_tree(allocation)
        self.in_flight[key] = uid
        self._book(key, allocation, tree)
        return tree

    def planned(self, key: ObjectKey) -> Tree:
        """What is booked for a claim."""
        return self._booked[key]

    def stamp(self, key: ObjectKey, tree: Tree) -> None:
        """The planned allocation will be written like this (with its timestamp, say); it names the same devices."""
        if key in self._booked:
            self._booked[key] = tree

    def settle(self, key: ObjectKey) -> None:
        """The plan has been carried out, or is off: from now on only the cluster's word counts."""
        if self.in_flight.pop(key, None) is None:
            return
        claim = self.known.get(key)
        allocation = claim.allocation if claim is not None else None
        if allocation is None:
            self._unbook(key)
        elif self._booked.get(key) != allocation:
            self._unbook(key)
            self._book(key, to_value(allocation, AllocationResult), allocation)

    def linger(self, claim: KnownClaim) -> ObjectKey:
        """Keep the devices that a claim has just lost from being used; returns the key for `let_go`.

        No object can have a name like that.
        """
        self._lingering += 1
        key = ObjectKey(claim.key.namespace, f"{claim.key.name}/{self._lingering}")
        allocation = claim.allocation
        assert allocation is not None
        self._book(key, to_value(allocation, AllocationResult), allocation)
        return key

    def let_go(self, key: ObjectKey) -> None:
        """Devices have lingered long enough."""
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

    def holding(self) -> Iterable[ResourceClaim]:
        """Claims that hold devices, with allocation and users, to tell who holds what."""
        for key, tree in self._booked.items():
            claim = self.known.get(key)
            if claim is not None:
                yield claim.holding(tree)
