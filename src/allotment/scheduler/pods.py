"""A pod that waits for a node, and what must be there before it is tried: its gates opened, its claims made."""

from __future__ import annotations

from typing import NamedTuple

from allotment.model.meta import ObjectKey
from allotment.model.pod_groups import not_owner_message
from allotment.model.trees import Tree
from allotment.node_fit.assigned_pod import resident_of
from allotment.node_fit.pod_requirements import Demand
from allotment.scheduler.claim_ledger import KnownClaim, Ledger

#: The most users that a claim can have.
MOST_USERS = 256


class WaitingPod:
    """A pod without a node, as the cluster has it."""

    __slots__ = ("demand", "failures", "group", "key", "resident", "tree", "uid")

    def __init__(self, tree: Tree, demand: Demand) -> None:
        metadata = tree["metadata"]
        self.tree = tree
        self.key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
        self.uid: str = metadata["uid"]
        self.demand = demand
        self.resident = resident_of(tree, demand)
        self.group: object = None
        self.failures = 0
        """Attempts that ended with an error, in a row."""

    def __repr__(self) -> str:
        return f"<WaitingPod {self.key}>"

    @property
    def priority(self) -> int:
        """Its priority."""
        return self.resident.priority

    @property
    def created(self) -> str:
        """When it was created."""
        return str(self.tree["metadata"].get("creationTimestamp") or "")

    @property
    def nominated(self) -> str:
        """The node where it is to go: pods were preempted there for it, or somebody expects it there (KEP-5278)."""
        return str((self.tree.get("status") or {}).get("nominatedNodeName") or "")

    @property
    def gates(self) -> tuple[str, ...]:
        """What must happen before it may be scheduled."""
        return tuple(gate.get("name", "") for gate in self.tree["spec"].get("schedulingGates") or ())


class Hold(NamedTuple):
    """Why a pod is not tried at all. ``text`` is Kubernetes' own, which it only logs."""

    code: str
    text: str
    entry: int = -1
    """Number of the entry of ``spec.resourceClaims``."""


def claims_of(tree: Tree, ledger: Ledger, group: str = "") -> list[KnownClaim] | Hold:
    """The claims that a pod names, or has been given; or why they are not all there. ``group``: the pod's."""
    entries = tree["spec"].get("resourceClaims")
    if not entries:
        return []
    metadata = tree["metadata"]
    namespace, uid = metadata.get("namespace", ""), metadata["uid"]
    found: list[KnownClaim] = []
    for number, entry in enumerate(entries):
        name = entry.get("resourceClaimName")
        generated = name is None
        if generated:
            status = _status_of(tree, entry["name"])
            if status is None:
                text = f'pod "{namespace}/{metadata["name"]}": ResourceClaim not created yet'
                return Hold("not-created", text, number)
            name = status.get("resourceClaimName")
            if name is None:
                continue  # none is needed for this entry
        claim = ledger.known.get(ObjectKey(namespace, name))
        if claim is None:
            code = "not-created" if generated else "claim-missing"
            return Hold(code, f'could not find ResourceClaim "{namespace}/{name}"', number)
        if claim.deleting:
            return Hold("claim-deleting", f'resourceclaim "{name}" is being deleted', number)
        if generated and not claim.is_made_for(uid, group):
            text = not_owner_message(str(claim.key), f"{namespace}/{metadata['name']}", group)
            return Hold("claim-not-owned", text, number)
        found.append(claim)
    return found


def claim_keys(tree: Tree) -> list[ObjectKey]:
    """The claims that a pod names, or has been given."""
    entries = tree["spec"].get("resourceClaims")
    if not entries:
        return []
    namespace = tree["metadata"].get("namespace", "")
    names = [entry.get("resourceClaimName") for entry in entries]
    names += [s.get("resourceClaimName") for s in (tree.get("status") or {}).get("resourceClaimStatuses") or ()]
    return [ObjectKey(namespace, name) for name in names if name]


def claim_name(tree: Tree, entry: Tree) -> str:
    """The claim behind an entry of a pod's claims; empty if it has none."""
    status = _status_of(tree, entry["name"]) or {}
    return entry.get("resourceClaimName") or status.get("resourceClaimName") or ""


def _status_of(tree: Tree, entry: str) -> Tree | None:
    for status in (tree.get("status") or {}).get("resourceClaimStatuses") or ():
        if status.get("name") == entry:
            return dict(status)
    return None
