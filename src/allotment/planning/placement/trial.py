"""Simulates the placement of pods, one by one, on existing and planned nodes, with the scheduler's filters.

The trial uses the real filters, topology spread and affinity over all nodes, and the engine with the slices that new
nodes will publish. The caller chooses the node of each pod: the one that it will be nominated to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from allotment.engine.allocator import Allocator
from allotment.engine.cluster.identity import DeviceID
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.outcome import Aborted, Allocated
from allotment.explanation.report import ClaimAllocation, claim_allocation
from allotment.fleet.catalog.instance_type import Template
from allotment.model.meta import ObjectKey
from allotment.model.resource import (
    AllocationResult,
    Device,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from allotment.model.trees import to_tree
from allotment.node_fit.device_table import DeviceTables
from allotment.node_fit.filters import run_filters
from allotment.node_fit.filters.inter_pod_affinity import inter_pod_affinity
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.filters.topology_spread import topology_spread
from allotment.node_fit.node_table import NodeFitTables
from allotment.node_fit.nodes import CachedNode, NodeCache
from allotment.node_fit.pod_requirements import selector_matches
from allotment.planning.pending_pods.demand import ClusterDemand, PendingPod
from allotment.planning.pending_pods.pod_claims import MAX_CONSUMERS

#: Which rejection of a pod is reported: by cause, the highest severity.
_SEVERITIES: Final = {"": 2, "devices": 2, "claim": 3, "spread": 3, "neighbours": 3, "order": 5}


class PlacementRejection(NamedTuple):
    """The reason why a pod does not fit a node. ``on_every_node``: an error ends the scheduling attempt for all nodes.

    ``cause``: the scheduler's filter, or ``devices``, or ``claim`` if a claim is allocated elsewhere.
    """

    text: str
    on_every_node: bool = False
    cause: str = ""

    @property
    def severity(self) -> int:
        """The rank of the rejection: the highest one is reported."""
        return 4 if self.on_every_node else _SEVERITIES.get(self.cause, 1)


class PlacementTrial:
    """The cluster with the planned nodes, to which pods are added."""

    def __init__(self, demand: ClusterDemand, planned: Iterable[Template]) -> None:
        objects = demand.objects
        templates = list(planned)
        slices = [slice_ for slice_ in objects.slices if ("ResourceSlice", slice_.key) not in objects.refused]
        slices += [slice_ for template in templates for slice_ in template.slices]
        self.demand = demand
        self.inventory = Inventory.of(
            objects.features,
            slices=slices,
            classes=demand.classes.values(),
            claims=objects.claims.values(),
            taint_rules=objects.rules,
        )
        self.machines = NodeCache(self.inventory)
        self.allocator = Allocator(self.inventory)
        self._tables = NodeFitTables(self.machines)
        self._devices = DeviceTables(self.allocator)
        self.claims: dict[ObjectKey, ResourceClaim] = {}
        """The claims that this trial allocated."""
        self._consumers: dict[ObjectKey, int] = {}
        self._published: Mapping[DeviceID, Device] | None = None
        self._last_pod_rejections: tuple[int, dict[int, Refusal]] | None = None
        """Cached rejections by other pods, for the last checked pod (by order), until a pod is added or removed."""
        for node in (*objects.nodes, *(template.node for template in templates)):
            self.machines.put(to_tree(node))
        for resident, where in demand.residents:
            self.machines.assign_pod(resident, where)
        for template in templates:
            machine = self.machines.by_name[template.node.metadata.name]
            for number, (requirements, resident) in enumerate(demand.daemons):
                if run_filters(requirements, machine) is None:
                    self.machines.assign_pod(resident._replace(uid=f"{number} {machine.name}"), machine.name)

    def place(self, pod: PendingPod, node: str) -> PlacementRejection | tuple[ClaimAllocation, ...]:
        """Place a pod on a node; returns its allocations, or the rejection, after which nothing has changed."""
        machine = self.machines.by_name[node]
        rejection = self._check_filters(pod, machine)
        if rejection is not None:
            return rejection
        pending: list[ResourceClaim] = []
        for claim in pod.claims.pending:
            current = self.claims.get(claim.key)
            if current is None:
                pending.append(claim)
            elif not _is_usable_on(current, machine):
                return PlacementRejection(f"claim {claim.key} is allocated on another node", cause="claim")
            elif self._consumers[claim.key] >= MAX_CONSUMERS:
                return PlacementRejection(
                    f"claim {claim.key} already has {MAX_CONSUMERS} consumers, the maximum", on_every_node=True
                )
        for claim in pod.claims.allocated:
            if not _is_usable_on(claim, machine):
                return PlacementRejection(f"claim {claim.key} is allocated on another node", cause="claim")
        missing = frozenset(name for name in pod.device_resources if machine.allocatable.get(name, 0) <= 0)
        extended = pod.extended_resource_claim(missing, self.demand)
        claims = (*pending, extended) if extended is not None else tuple(pending)
        results: tuple[AllocationResult, ...] = ()
        if claims:
            result = self._allocate(pod, machine, claims)
            if isinstance(result, PlacementRejection):
                return result
            results = result
        self._store_allocations(pod, claims, results)
        self.machines.assign_pod(pod.resident, node)
        self._last_pod_rejections = None
        return tuple(self._claims_of(pod, extended))

    def remove(self, pod: PendingPod) -> None:
        """Remove a pod from its node and deallocate the claims that no other pod uses."""
        self.machines.remove_pod(pod.resident.uid)
        self._last_pod_rejections = None
        for key in [claim.key for claim in pod.claims.pending] + [_extended_key(pod)]:
            if key in self.claims:
                self._consumers[key] -= 1
                if not self._consumers[key]:
                    del self.claims[key]
                    self.inventory.free(key)

    def _check_filters(self, pod: PendingPod, machine: CachedNode) -> PlacementRejection | None:
        requirements = pod.requirements
        refusal = run_filters(requirements, machine, pod.device_resources)
        if refusal is None:
            named = requirements.named_nodes()
            if named is not None and machine.name not in named:
                return PlacementRejection("it requires another node", cause="affinity")
            refusal = (
                self._rejections_by_other_pods(pod).get(machine.index) if self._depends_on_other_pods(pod) else None
            )
        return PlacementRejection(refusal.texts[0], cause=refusal.cause) if refusal is not None else None

    def _depends_on_other_pods(self, pod: PendingPod) -> bool:
        return pod.requirements.depends_on_other_pods or bool(self.machines.pods_with_affinity)

    def _rejections_by_other_pods(self, pod: PendingPod) -> dict[int, Refusal]:
        """By node index, the rejections by other pods: affinity and spread are evaluated for all nodes together."""
        if self._last_pod_rejections is not None and self._last_pod_rejections[0] == pod.order:
            return self._last_pod_rejections[1]
        result: dict[int, Refusal] = {}
        if pod.requirements.spread:
            result.update(topology_spread(pod.requirements, pod.resident.namespace, pod.resident.labels, self.machines))
        if pod.requirements.has_pod_affinity or self.machines.pods_with_affinity:
            result.update(inter_pod_affinity(pod.resident, self.machines, self.demand.namespaces))
        self._last_pod_rejections = pod.order, result
        return result

    def _allocate(
        self, pod: PendingPod, machine: CachedNode, claims: tuple[ResourceClaim, ...]
    ) -> tuple[AllocationResult, ...] | PlacementRejection:
        stops = self._devices.of(claims).errors
        if stops:
            # An error on any eligible node ends the scheduling attempt for all nodes.
            stops &= self._tables.of(pod.requirements, pod.device_resources).fits
            for place in self._rejections_by_other_pods(pod) if stops and self._depends_on_other_pods(pod) else ():
                stops &= ~(1 << place)
            if stops:
                error = self._devices.error_on((stops & -stops).bit_length() - 1, claims)
                return PlacementRejection(
                    error.text if error is not None else "its claims cause an error", on_every_node=True
                )
        outcome = self.allocator.allocate(machine.name, claims)
        if isinstance(outcome, Allocated):
            return outcome.results
        if isinstance(outcome, Aborted):
            return PlacementRejection(outcome.text, cause="devices")
        return PlacementRejection("the node has no devices for its claims", cause="devices")

    def _store_allocations(
        self, pod: PendingPod, claims: tuple[ResourceClaim, ...], results: tuple[AllocationResult, ...]
    ) -> None:
        metadata = pod.pod.metadata
        user = ResourceClaimConsumerReference(resource="pods", name=metadata.name, uid=metadata.uid)
        for claim, allocation in zip(claims, results, strict=True):
            key = claim.key
            status = ResourceClaimStatus(allocation=allocation, reserved_for=(user,))
            self.claims[key] = replace(claim, status=status)
            self.inventory.allocate(key, allocation)
        keys = [claim.key for claim in pod.claims.pending]
        if claims and claims[-1].key == _extended_key(pod):
            keys.append(_extended_key(pod))
        for key in keys:
            self._consumers[key] = self._consumers.get(key, 0) + 1

    def _claims_of(self, pod: PendingPod, extended: ResourceClaim | None) -> Iterable[ClaimAllocation]:
        for claim in pod.claims.allocated:
            yield claim_allocation(claim, pod.claims.templates.get(claim.key, ""), True, self.published_devices.get)
        for claim in (*pod.claims.pending, *((extended,) if extended is not None else ())):
            key = claim.key
            shared = self._consumers.get(key, 0) > 1
            yield claim_allocation(
                self.claims[key], pod.claims.templates.get(key, ""), shared, self.published_devices.get
            )

    @property
    def published_devices(self) -> Mapping[DeviceID, Device]:
        """All devices of the cluster including the planned nodes."""
        if self._published is None:
            self._published = {
                DeviceID(slice_.spec.driver, slice_.spec.pool.name, device.name): device
                for slice_ in self.inventory.slices.values()
                for device in slice_.spec.devices or ()
            }
        return self._published


def _extended_key(pod: PendingPod) -> ObjectKey:
    """The name that `explanation.extended_resources` gives the claim."""
    return ObjectKey(pod.key.namespace, f"{pod.key.name}-extended-resources")


def _is_usable_on(claim: ResourceClaim, machine: CachedNode) -> bool:
    allocation = claim.status.allocation
    return (
        allocation is None
        or allocation.node_selector is None
        or selector_matches(allocation.node_selector, machine.facts)
    )
