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
from allotment.tools.explain.report import GivenClaim, given_claim
from allotment.tools.plan.pending_pods.demand import Demand, Waiting
from allotment.tools.plan.pending_pods.pod_claims import MOST_USERS

#: What is worth telling first: a node is out for good reasons of its own, or others have what there is, or are near.
_WEIGHTS: Final = {"": 2, "devices": 2, "claim": 3, "spread": 3, "neighbours": 3, "order": 5}


class Refused(NamedTuple):
    """Why a pod cannot go to a node now. ``anywhere``: nor to any other, since an error ends the attempt.

    ``cause``: which of Kubernetes' filters it was, or ``devices``, or ``claim`` that is allocated elsewhere.
    """

    text: str
    anywhere: bool = False
    cause: str = ""

    @property
    def weight(self) -> int:
        """Of two refusals, the one with more is the one to tell."""
        return 4 if self.anywhere else _WEIGHTS.get(self.cause, 1)


class Trial:
    """The cluster with the planned nodes, as pods come to it."""

    def __init__(self, demand: Demand, planned: Iterable[Template]) -> None:
        given = demand.given
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
        self._users: dict[ObjectKey, int] = {}
        self._published: Mapping[DeviceID, Device] | None = None
        self._asked_last: tuple[int, dict[int, Refusal]] | None = None
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

    def place(self, pod: Waiting, node: str) -> Refused | tuple[GivenClaim, ...]:
        """Put a pod on a node: what its claims get there, or why it may not go there. Then nothing has changed."""
        machine = self.machines.by_name[node]
        refused = self._refused(pod, machine)
        if refused is not None:
            return refused
        pending: list[ResourceClaim] = []
        for claim in pod.claims.pending:
            known = self.claims.get(claim.key)
            if known is None:
                pending.append(claim)
            elif not _reaches(known, machine):
                return Refused(f"claim {claim.key} is allocated on another node", cause="claim")
            elif self._users[claim.key] >= MOST_USERS:
                return Refused(f"claim {claim.key} has {MOST_USERS} users, the most there can be", anywhere=True)
        for claim in pod.claims.before:
            if not _reaches(claim, machine):
                return Refused(f"claim {claim.key} is allocated on another node", cause="claim")
        lacking = frozenset(name for name in pod.by_devices if machine.allocatable.get(name, 0) <= 0)
        made = pod.extended(lacking, self.demand)
        wanted = (*pending, made) if made is not None else tuple(pending)
        results: tuple[AllocationResult, ...] = ()
        if wanted:
            found = self._allocate(pod, machine, wanted)
            if isinstance(found, Refused):
                return found
            results = found
        self._book(pod, wanted, results)
        self.machines.seat(pod.resident, node)
        self._asked_last = None
        return tuple(self._given(pod, made))

    def withdraw(self, pod: Waiting) -> None:
        """Take a pod off its node again, and give back the claims that nobody else uses."""
        self.machines.unseat(pod.resident.uid)
        self._asked_last = None
        for key in [claim.key for claim in pod.claims.pending] + [_extended_key(pod)]:
            if key in self.claims:
                self._users[key] -= 1
                if not self._users[key]:
                    del self.claims[key]
                    self.inventory.free(key)

    def _refused(self, pod: Waiting, machine: Machine) -> Refused | None:
        asked = pod.asked
        refusal = judge(asked, machine, pod.by_devices)
        if refusal is None:
            named = asked.named_nodes()
            if named is not None and machine.name not in named:
                return Refused("it is for another node", cause="affinity")
            refusal = self._elsewhere(pod).get(machine.place) if self._is_social(pod) else None
        return Refused(refusal.texts[0], cause=refusal.cause) if refusal is not None else None

    def _is_social(self, pod: Waiting) -> bool:
        return pod.asked.social or bool(self.machines.neighbourly)

    def _elsewhere(self, pod: Waiting) -> dict[int, Refusal]:
        """Nodes that are out because of pods on any, by place: one look at all of them, whatever node is meant."""
        if self._asked_last is not None and self._asked_last[0] == pod.order:
            return self._asked_last[1]
        found: dict[int, Refusal] = {}
        if pod.asked.spread:
            found.update(spread(pod.asked, pod.resident.namespace, pod.resident.labels, self.machines))
        if pod.asked.has_neighbours or self.machines.neighbourly:
            found.update(neighbours(pod.resident, self.machines, self.demand.namespaces))
        self._asked_last = pod.order, found
        return found

    def _allocate(
        self, pod: Waiting, machine: Machine, claims: tuple[ResourceClaim, ...]
    ) -> tuple[AllocationResult, ...] | Refused:
        stops = self._devices.of(claims).stops
        if stops:
            # An error on any node that the pod may use ends the attempt on all of them.
            stops &= self._tables.of(pod.asked, pod.by_devices).fits
            for place in self._elsewhere(pod) if stops and self._is_social(pod) else ():
                stops &= ~(1 << place)
            if stops:
                error = self._devices.error_on((stops & -stops).bit_length() - 1, claims)
                return Refused(error.text if error is not None else "its claims end in an error", anywhere=True)
        outcome = self.allocator.allocate(machine.name, claims)
        if isinstance(outcome, Allocated):
            return outcome.results
        if isinstance(outcome, Aborted):
            return Refused(outcome.text, cause="devices")
        return Refused("its claims find no devices there", cause="devices")

    def _book(self, pod: Waiting, claims: tuple[ResourceClaim, ...], results: tuple[AllocationResult, ...]) -> None:
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
            self._users[key] = self._users.get(key, 0) + 1

    def _given(self, pod: Waiting, made: ResourceClaim | None) -> Iterable[GivenClaim]:
        for claim in pod.claims.before:
            yield given_claim(claim, pod.claims.templates.get(claim.key, ""), True, self.published)
        for claim in (*pod.claims.pending, *((made,) if made is not None else ())):
            key = claim.key
            shared = self._users.get(key, 0) > 1
            yield given_claim(self.claims[key], pod.claims.templates.get(key, ""), shared, self.published)

    @property
    def published(self) -> Mapping[DeviceID, Device]:
        """Every device of the cluster that will be."""
        if self._published is None:
            self._published = {
                DeviceID(one.spec.driver, one.spec.pool.name, device.name): device
                for one in self.inventory.slices.values()
                for device in one.spec.devices or ()
            }
        return self._published


def _extended_key(pod: Waiting) -> ObjectKey:
    """As `tools.explain.extended` names the claim."""
    return ObjectKey(pod.key.namespace, f"{pod.key.name}-extended-resources")


def _reaches(claim: ResourceClaim, machine: Machine) -> bool:
    allocation = claim.status.allocation
    return allocation is None or allocation.node_selector is None or admits(allocation.node_selector, machine.facts)
