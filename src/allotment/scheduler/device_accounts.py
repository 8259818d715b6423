"""The cpu, memory and huge pages that a pod's devices use of its node, in the scheduler's decisions (KEP-5517)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from allotment.model.resource import AllocationResult
from allotment.model.trees import Tree
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.filters.resources import resources
from allotment.node_fit.node_allocatable import (
    ClaimUse,
    NodeAllocatableDevices,
    UnknownUse,
    claim_statuses,
    uncovered_by_pod_level,
)
from allotment.node_fit.nodes import CachedNode
from allotment.node_fit.pod_requirements import PodRequirements, PodRequirementsCache
from allotment.scheduler.claim_ledger import CachedClaim, ClaimLedger
from allotment.scheduler.pod_groups import PodGroups
from allotment.scheduler.pods import QueuedPod, claim_name

_MAPPED_CLAIM: Final = "node allocatable resource claim {} has a mapped device and cannot be shared across pods"


def shared_claim_refusal(claim: CachedClaim) -> Refusal:
    """Return the refusal of nodes on which a claim of another pod stands for resources of the node."""
    return Refusal((_MAPPED_CLAIM.format(claim.key.name),), cause="claim", shared_claim=str(claim.key))


class DeviceAccounts:
    """Accounts for ``devices``, which are none if the feature gate is off; false without any."""

    def __init__(
        self, devices: NodeAllocatableDevices, ledger: ClaimLedger, groups: PodGroups, demands: PodRequirementsCache
    ) -> None:
        self._devices = devices
        self._ledger = ledger
        self._groups = groups
        self._demands = demands

    def __bool__(self) -> bool:
        return bool(self._devices)

    def is_taken(self, pod: QueuedPod, claim: CachedClaim) -> bool:
        """Whether an allocated claim stands for cpu, memory or huge pages that another pod uses."""
        if not self._devices:
            return False
        planner = self._ledger.in_flight.get(claim.key, pod.uid)
        reserved = bool(claim.users) and not claim.is_reserved_for(pod.uid, self._groups.of(pod.tree))
        return (reserved or planner != pod.uid) and self._devices.is_mapped(claim.allocation_value())

    def unpublished(self, claims: Iterable[CachedClaim], machines: Iterable[CachedNode]) -> str:
        """Return Kubernetes' error if a device of an allocated claim is in no slice, so that it is unknown what the
        claim uses of one of these nodes; otherwise an empty string.
        """
        allocated = ((claim.key, claim.allocation_value()) for claim in claims if self._devices)
        uses = [ClaimUse(key, value, frozenset()) for key, value in allocated if self._devices.is_incomplete(value)]
        for machine in machines if uses else ():
            try:
                claim_statuses({}, uses, self._devices, machine.facts)
            except UnknownUse as error:
                return str(error)
        return ""

    def check(
        self, pod: QueuedPod, machine: CachedNode, allocations: Iterable[tuple[CachedClaim, AllocationResult]]
    ) -> tuple[Tree, ...] | Refusal:
        """Return what the devices use of a node, or why it is not available there.

        Raises `UnknownUse`.
        """
        entries: dict[str, set[str]] = {}
        for entry in pod.tree["spec"].get("resourceClaims") or ():
            entries.setdefault(claim_name(pod.tree, entry), set()).add(entry["name"])
        uses = [ClaimUse(c.key, a, frozenset(entries.get(c.key.name, ()))) for c, a in allocations]
        statuses = claim_statuses(pod.tree["spec"], uses, self._devices, machine.facts)
        if not statuses:
            return ()
        if text := uncovered_by_pod_level(pod.tree["spec"], statuses):
            return Refusal((text,), cause="device-resources")
        demand = self.demand_with(pod, statuses)
        refusal = resources(demand, machine)
        if refusal is None:
            return tuple(statuses)
        return refusal._replace(cause="device-resources", requests=tuple(demand.requests.items()))

    def demand_with(self, pod: QueuedPod, statuses: Sequence[Tree]) -> PodRequirements:
        """Return the requirements of a pod whose devices use resources of the node."""
        if not statuses:
            return pod.demand
        return self._demands.of(pod.tree["spec"], {"nodeAllocatableResourceClaimStatuses": list(statuses)})
