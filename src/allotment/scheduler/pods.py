"""A pod without a node, and the preconditions of its first attempt: no scheduling gates, all claims created."""

from __future__ import annotations

from typing import NamedTuple

from allotment.model.meta import ObjectKey
from allotment.model.pod_groups import not_owner_message
from allotment.model.pod_volume_claims import claim_names
from allotment.model.trees import Tree
from allotment.node_fit.assigned_pod import to_assigned_pod
from allotment.node_fit.pod_requirements import PodRequirements
from allotment.scheduler.claim_ledger import CachedClaim, ClaimLedger

#: The maximum number of consumers of a claim.
MAX_CONSUMERS = 256


class QueuedPod:
    """A pod without a node, as it is in the cluster."""

    __slots__ = ("demand", "failures", "group", "key", "resident", "tree", "uid", "volume_claims")

    def __init__(self, tree: Tree, demand: PodRequirements) -> None:
        metadata = tree["metadata"]
        self.tree = tree
        self.key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
        self.uid: str = metadata["uid"]
        self.demand = demand
        self.resident = to_assigned_pod(tree, demand)
        self.volume_claims = tuple(claim_names(tree))
        """The names of its PersistentVolumeClaims, and whether each is created for an ephemeral volume."""
        self.group: object = None
        self.failures = 0
        """Consecutive attempts that ended with an error."""

    def __repr__(self) -> str:
        return f"<QueuedPod {self.key}>"

    @property
    def priority(self) -> int:
        return self.resident.priority

    @property
    def created(self) -> str:
        """The creation timestamp."""
        return str(self.tree["metadata"].get("creationTimestamp") or "")

    @property
    def nominated_node(self) -> str:
        """The node the pod is expected on, because of preemption or another client (KEP-5278); empty if none."""
        return str((self.tree.get("status") or {}).get("nominatedNodeName") or "")

    @property
    def gates(self) -> tuple[str, ...]:
        """The names of its scheduling gates."""
        return tuple(gate.get("name", "") for gate in self.tree["spec"].get("schedulingGates") or ())


class HoldReason(NamedTuple):
    """The reason why a pod is not attempted. ``text`` is Kubernetes' own, which Kubernetes only logs."""

    code: str
    text: str
    entry: int = -1
    """Index in ``spec.resourceClaims``."""


def resolve_claims(tree: Tree, ledger: ClaimLedger, group: str = "") -> list[CachedClaim] | HoldReason:
    """Return the claims of a pod, or why one is missing. ``group``: the pod's PodGroup."""
    entries = tree["spec"].get("resourceClaims")
    if not entries:
        return []
    metadata = tree["metadata"]
    namespace, uid = metadata.get("namespace", ""), metadata["uid"]
    found: list[CachedClaim] = []
    for number, entry in enumerate(entries):
        name = entry.get("resourceClaimName")
        generated = name is None
        if generated:
            status = _status_of(tree, entry["name"])
            if status is None:
                text = f'pod "{namespace}/{metadata["name"]}": ResourceClaim not created yet'
                return HoldReason("not-created", text, number)
            name = status.get("resourceClaimName")
            if name is None:
                continue  # none is needed for this entry
        claim = ledger.known.get(ObjectKey(namespace, name))
        if claim is None:
            code = "not-created" if generated else "claim-missing"
            return HoldReason(code, f'could not find ResourceClaim "{namespace}/{name}"', number)
        if claim.is_deleting:
            return HoldReason("claim-deleting", f'resourceclaim "{name}" is being deleted', number)
        if generated and not claim.is_controlled_by(uid, group):
            text = not_owner_message(str(claim.key), f"{namespace}/{metadata['name']}", group)
            return HoldReason("claim-not-owned", text, number)
        found.append(claim)
    return found


def claim_keys(tree: Tree) -> list[ObjectKey]:
    """Return the keys of the claims that a pod references or that were generated for it."""
    entries = tree["spec"].get("resourceClaims")
    if not entries:
        return []
    namespace = tree["metadata"].get("namespace", "")
    names = [entry.get("resourceClaimName") for entry in entries]
    names += [s.get("resourceClaimName") for s in (tree.get("status") or {}).get("resourceClaimStatuses") or ()]
    return [ObjectKey(namespace, name) for name in names if name]


def claim_name(tree: Tree, entry: Tree) -> str:
    """Return the name of the claim for an entry of a pod's claims; empty if it has none."""
    status = _status_of(tree, entry["name"]) or {}
    return entry.get("resourceClaimName") or status.get("resourceClaimName") or ""


def _status_of(tree: Tree, entry: str) -> Tree | None:
    for status in (tree.get("status") or {}).get("resourceClaimStatuses") or ():
        if status.get("name") == entry:
            return dict(status)
    return None
