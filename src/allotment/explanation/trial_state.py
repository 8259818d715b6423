"""``TrialState``: the cluster as the pods that were tried before left it, and a way to take allocations back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from allotment.engine.diagnosis.diagnoser import Diagnoser
from allotment.engine.placement import Placed
from allotment.explanation.cluster_devices import ClusterDevices
from allotment.explanation.diagnosis_cache import DiagnosisCache
from allotment.explanation.input import ExplainInput
from allotment.explanation.node_accounts import Allocations, NodeAccounts, Shortage
from allotment.explanation.node_room import NodeRoom
from allotment.explanation.placement import ClaimPlacer
from allotment.explanation.pod_claims import PodClaims
from allotment.explanation.tried_pod import TriedPod
from allotment.model.core import Pod
from allotment.model.resource import (
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)


class TrialState:
    """Devices, claims and node resources, with what has been recorded since the start."""

    def __init__(self, input: ExplainInput, tries: int | None, devices: ClusterDevices) -> None:
        """``devices``: those of the input."""
        self.input = input
        self.placer = ClaimPlacer(input, devices)
        self.accounts = NodeAccounts(input)
        self.room = NodeRoom(input)
        diagnoser = Diagnoser(devices.inventory, (), tries, devices.published, devices.diagnoses)
        self.diagnoses = DiagnosisCache(diagnoser)
        self.version = 0
        """Increased with each change of the allocations."""
        self._undo: list[Callable[[], None]] = []
        """Functions that take back each change."""

    def mark(self) -> int:
        """The present state, for `revert`."""
        return len(self._undo)

    def revert(self, mark: int) -> None:
        """Take back all changes since then."""
        while len(self._undo) > mark:
            self._undo.pop()()

    # --- devices -----------------------------------------------------------------------------------------------------

    def allocate(self, tried: TriedPod, results: Sequence[AllocationResult]) -> list[ResourceClaim]:
        """Record the allocations of a pod's pending claims; returns the allocated claims."""
        return [self._allocate(c, r, tried.pod, tried.requested) for c, r in zip(tried.pending, results, strict=True)]

    def _allocate(
        self, claim: ResourceClaim, allocation: AllocationResult, pod: Pod | None, requested: PodClaims
    ) -> ResourceClaim:
        """Record an allocation; a claim that no pod uses does not hold devices, because it would not be allocated."""
        if pod is None:
            return replace(claim, status=ResourceClaimStatus(allocation=allocation))
        key = claim.key
        own = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
        user = requested.consumers.get(key, own)
        booked = replace(claim, status=ResourceClaimStatus(allocation=allocation, reserved_for=(user,)))
        self._undo.append(partial(self._release, booked, self.placer.claims.get(key)))
        self.placer.claims[key] = booked
        self.placer.devices.put_claim(key, booked)
        self._changed()
        return booked

    def _release(self, booked: ResourceClaim, before: ResourceClaim | None) -> None:
        """Take back an allocation. ``before``: the claim as it was, None if it did not exist."""
        key = booked.key
        self.placer.claims.pop(key)
        if before is not None:
            self.placer.claims[key] = before
        self.placer.devices.put_claim(key, before)
        self._changed()

    def _changed(self) -> None:
        self.diagnoses.clear()
        self.version += 1

    # --- resources of the nodes that devices use ---------------------------------------------------------------------

    def use_node(self, pod: Pod, node: str, allocations: Allocations) -> None:
        """Record what a pod with these allocations uses of its node."""
        self.accounts.add(pod, node, allocations)
        self._undo.append(partial(self.accounts.remove, pod, node, allocations))
        self.room.add(pod, node)
        self._undo.append(partial(self.room.add, pod, node, -1))

    def shortage(self, pod: Pod | None, node: str, allocations: Allocations) -> Shortage | None:
        """The resource that a pod lacks on a node for its devices; None if it is on this node already. Raises
        UnknownUse."""
        if pod is None or pod.spec.node_name or not self.accounts:
            return None
        return self.accounts.shortage(pod, node, allocations)

    def place(self, tried: TriedPod) -> tuple[Placed | None, dict[str, Shortage]]:
        """Where the pending claims fit and the node has enough resources for their devices, and what the nodes lack
        on which only the claims fit. Raises UnknownUse."""
        placer, shortages = self.placer, dict[str, Shortage]()
        among = -1 if len(tried.eligible) == len(placer.nodes) else placer.inventory.node_mask(tried.eligible)
        placed = placer.place(tried.pending, among)
        while placed is not None:
            lacking = self.shortage(tried.pod, placed.node, tried.with_results(placed.results))
            if lacking is None:
                break
            shortages[placed.node] = lacking
            left = [node for node in tried.eligible if node not in shortages]
            placed = placer.place(tried.pending, placer.inventory.node_mask(left)) if left else None
        return placed, shortages

    def place_with_room(self, tried: TriedPod, placed: Placed) -> Placed:
        """Where the pending claims fit on a node with enough resources for the pod; if there is none, as ``placed``.
        Raises UnknownUse."""
        if tried.pod is None or self.room.has_room(tried.pod, placed.node):
            return placed
        left = self.room.with_room(tried.pod, tried.eligible)
        elsewhere = self.place(tried._replace(eligible=left))[0] if left else None
        return elsewhere or placed

    def first_node(self, tried: TriedPod) -> tuple[str, dict[str, Shortage]]:
        """The first node with enough resources for a pod whose claims are all allocated, or else what each node lacks.
        Raises UnknownUse."""
        short: dict[str, Shortage] = {}
        for node in tried.eligible:
            lacking = self.shortage(tried.pod, node, tried.allocations)
            if lacking is None:
                return node, {}
            short[node] = lacking
        return "", short
