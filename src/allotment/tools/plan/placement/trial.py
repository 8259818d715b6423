"""The plan put to the test: pods placed one by one on the nodes as they will be, by the scheduler's own rules.

Nothing is estimated here: real filters, spread and affinity over all nodes, and the engine with the slices that the new
nodes will publish, in the order of the scheduler's queue. Each pod may go only where the plan sends it, for that is
where it will be nominated to go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from allotment.engine.allocator import Allocator
from allotment.engine.cluster.identity import DeviceID
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.outcome import Aborted, Allocated
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
from allotment.node_fit.filters import judge
from allotment.node_fit.filters.inter_pod_affinity import neighbours
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.filters.topology_spread import spread
from allotment.node_fit.node_table import Tables
from allotment.node_fit.nodes import Machine, Machines
from allotment.node_fit.pod_requirements import admits
from allotment.tools.explain.report import ClaimAllocation, claim_allocation
from allotment.tools.plan.pending_pods.demand import ClusterDemand, PendingPod
from allotment.tools.plan.pending_pods.pod_claims import MAX_CONSUMERS

#: What is worth telling first: a node is out for good reasons of its own, or others have what there is, or are near.
_SEVERITIES: Final = {"": 2, "devices": 2, "claim": 3, "spread": 3, "neighbours": 3, "order": 5}


class PlacementRejection(NamedTuple):
    """Why a pod cannot go to a node now. ``anywhere``: nor to any other, since an error ends the attempt.

    ``cause``: which of Kubernetes' filters it was, or ``devices``, or ``claim`` that is allocated elsewhere.
    """

    text: str
    on_every_node: bool = False
    cause: str = ""

    @property
    def severity(self) -> int:
        """Of two refusals, the one with more is the one to tell."""
        return 4 if self.on_every_node else _SEVERITIES.get(self.cause, 1)


class PlacementTrial:
    """The cluster with the planned nodes, as pods come to it."""

    def __init__(self, demand: ClusterDemand, planned: Iterable[Template]) -> None:
        given = demand.objects
        new = list(planned)
        slices = [one for one in given.slices if ("ResourceSlice", one.key) not in given.refused]
        slices += [one for made in new for one in made.slices]
        self.demand = demand
        self.inventory = Inventory.of(
            given.features,
            slices=slices,
            classes=demand.classes.values(),
            claims=given.claims.values(),
            taint_rules=given.rules,
        )
        self.machines = Machines(self.inventory)
        self.allocator = Allocator(self.inventory)
        self._tables = Tables(self.machines)
        self._devices = DeviceTables(self.allocator)
        self.claims: dict[ObjectKey, ResourceClaim] = {}
        """Those that this trial has allocated."""
        self._consumers: dict[ObjectKey, int] = {}
        self._published: Mapping[DeviceID, Device] | None = None
        self._last_pod_rejections: tuple[int, dict[int, Refusal]] | None = None
        """Of the pod (by order) that was asked about last, until another one comes or goes."""
        for node in (*given.nodes, *(made.node for made in new)):
            self.machines.put(to_tree(node))
        for resident, where in demand.residents:
            self.machines.seat(resident, where)
        for made in new:
            machine = self.machines.by_name[made.node.metadata.name]
            for number, (asked, resident) in enumerate(demand.daemons):
                if judge(asked, machine) is None:
                    self.machines.seat(resident._replace(uid=f"{number} {machine.name}"), machine.name)

    def place(self, pod: PendingPod, node: str) -> PlacementRejection | tuple[ClaimAllocation, ...]:
        """Put a pod on a node: what its claims get there, or why it may not go there. Then nothing has changed."""
        machine = self.machines.by_name[node]
        refused = self._check_filters(pod, machine)
        if refused is not None:
            return refused
        pending: list[ResourceClaim] = []
        for claim in pod.claims.pending:
            known = self.claims.get(claim.key)
            if known is None:
                pending.append(claim)
            elif not _is_usable_on(known, machine):
                return PlacementRejection(f"claim {claim.key} is allocated on another node", cause="claim")
            elif self._consumers[claim.key] >= MAX_CONSUMERS:
                return PlacementRejection(f"claim {claim.key} has {MAX_CONSUMERS} users, the most there can be", on_every_node=True)
        for claim in pod.claims.allocated:
            if not _is_usable_on(claim, machine):
                return PlacementRejection(f"claim {claim.key} is allocated on another node", cause="claim")
        lacking = frozenset(name for name in pod.device_resources if machine.allocatable.get(name, 0) <= 0)
        made = pod.extended_resource_claim(lacking, self.demand)
        wanted = (*pending, made) if made is not None else tuple(pending)
        results: tuple[AllocationResult, ...] = ()
        if wanted:
            found = self._allocate(pod, machine, wanted)
            if isinstance(found, PlacementRejection):
                return found
            results = found
        self._store_allocations(pod, wanted, results)
        self.machines.seat(pod.resident, node)
        self._last_pod_rejections = None
        return tuple(self._claims_of(pod, made))

    def remove(self, pod: PendingPod) -> None:
        """Take a pod off its node again, and give back the claims that nobody else uses."""
        self.machines.unseat(pod.resident.uid)
        self._last_pod_rejections = None
        for key in [claim.key for claim in pod.claims.pending] + [_extended_key(pod)]:
            if key in self.claims:
                self._consumers[key] -= 1
                if not self._consumers[key]:
                    del self.claims[key]
                    self.inventory.free(key)

    def _check_filters(self, pod: PendingPod, machine: Machine) -> PlacementRejection | None:
        asked = pod.requirements
        refusal = judge(asked, machine, pod.device_resources)
        if refusal is None:
            named = asked.named_nodes()
            if named is not None and machine.name not in named:
                return PlacementRejection("it is for another node", cause="affinity")
            refusal = self._rejections_by_other_pods(pod).get(machine.place) if self._depends_on_other_pods(pod) else None
        return PlacementRejection(refusal.texts[0], cause=refusal.cause) if refusal is not None else None

    def _depends_on_other_pods(self, pod: PendingPod) -> bool:
        return pod.requirements.social or bool(self.machines.neighbourly)

    def _rejections_by_other_pods(self, pod: PendingPod) -> dict[int, Refusal]:
        """Nodes that are out because of pods on any, by place: one look at all of them, whatever node is meant."""
        if self._last_pod_rejections is not None and self._last_pod_rejections[0] == pod.order:
            return self._last_pod_rejections[1]
        found: dict[int, Refusal] = {}
        if pod.requirements.spread:
            found.update(spread(pod.requirements, pod.resident.namespace, pod.resident.labels, self.machines))
        if pod.requirements.has_neighbours or self.machines.neighbourly:
            found.update(neighbours(pod.resident, self.machines, self.demand.namespaces))
        self._last_pod_rejections = pod.order, found
        return found

    def _allocate(
        self, pod: PendingPod, machine: Machine, claims: tuple[ResourceClaim, ...]
    ) -> tuple[AllocationResult, ...] | PlacementRejection:
        stops = self._devices.of(claims).stops
        if stops:
            # An error on any node that the pod may use ends the attempt on all of them.
            stops &= self._tables.of(pod.requirements, pod.device_resources).fits
            for place in self._rejections_by_other_pods(pod) if stops and self._depends_on_other_pods(pod) else ():
                stops &= ~(1 << place)
            if stops:
                error = self._devices.error_on((stops & -stops).bit_length() - 1, claims)
                return PlacementRejection(error.text if error is not None else "its claims end in an error", on_every_node=True)
        outcome = self.allocator.allocate(machine.name, claims)
        if isinstance(outcome, Allocated):
            return outcome.results
        if isinstance(outcome, Aborted):
            return PlacementRejection(outcome.text, cause="devices")
        return PlacementRejection("its claims find no devices there", cause="devices")

    def _store_allocations(self, pod: PendingPod, claims: tuple[ResourceClaim, ...], results: tuple[AllocationResult, ...]) -> None:
        metadata = pod.pod.metadata
        user = ResourceClaimConsumerReference(resource="pods", name=metadata.name, uid=metadata.uid)
        for claim, allocation in zip(claims, results, strict=True):
            key = claim.key
            status = ResourceClaimStatus(allocation=allocation, reserved_for=(user,))
            self.claims[key] = replace(claim, status=status)
            self.inventory.allocate(key, allocation)
        used = [claim.key for claim in pod.claims.pending]
        if claims and claims[-1].key == _extended_key(pod):
            used.append(_extended_key(pod))
        for key in used:
            self._consumers[key] = self._consumers.get(key, 0) + 1

    def _claims_of(self, pod: PendingPod, made: ResourceClaim | None) -> Iterable[ClaimAllocation]:
        for claim in pod.claims.allocated:
            yield claim_allocation(claim, pod.claims.templates.get(claim.key, ""), True, self.published_devices)
        for claim in (*pod.claims.pending, *((made,) if made is not None else ())):
            key = claim.key
            shared = self._consumers.get(key, 0) > 1
            yield claim_allocation(self.claims[key], pod.claims.templates.get(key, ""), shared, self.published_devices)

    @property
    def published_devices(self) -> Mapping[DeviceID, Device]:
        """Every device of the cluster that will be."""
        if self._published is None:
            self._published = {
                DeviceID(one.spec.driver, one.spec.pool.name, device.name): device
                for one in self.inventory.slices.values()
                for device in one.spec.devices or ()
            }
        return self._published


def _extended_key(pod: PendingPod) -> ObjectKey:
    """As `tools.explain.extended` names the claim."""
    return ObjectKey(pod.key.namespace, f"{pod.key.name}-extended-resources")


def _is_usable_on(claim: ResourceClaim, machine: Machine) -> bool:
    allocation = claim.status.allocation
    return allocation is None or allocation.node_selector is None or admits(allocation.node_selector, machine.facts)
