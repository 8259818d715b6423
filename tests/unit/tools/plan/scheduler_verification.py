"""A plan played through the real scheduler's rules, on nodes that publish what real drivers would: no symbols."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

from allotment.engine.allocator import Allocator
from allotment.engine.cluster.inventory import Inventory
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.fleet.catalog.templates import template_of
from allotment.fleet.description import parse_fleet
from allotment.fleet.device_classes import CLASSES
from allotment.fleet.slices import slices_of
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceClaim, ResourceSlice
from allotment.model.trees import Tree, to_tree
from allotment.node_fit.nodes import NodeCache
from allotment.node_fit.pod_requirements import PodRequirementsCache
from allotment.scheduler.attempt import NodeAssignment, SchedulingAlgorithm
from allotment.scheduler.claim_ledger import ClaimLedger
from allotment.scheduler.pod_groups import PodGroups
from allotment.scheduler.pods import QueuedPod, resolve_claims
from allotment.tools.plan.pending_pods.demand import PendingPod, read_demand
from allotment.tools.plan.report import PlannedMachine, ProvisioningPlan


class _NoGroups:
    """No PodGroups."""

    def of(self, _: Tree) -> str:
        return ""

    def missing(self, _: Tree) -> str:
        return ""


#: Who of those that found no node is tried again, and when: all of them each time that another pod was bound, or all of
#: them when every pod has had its turn.
RETRY_ORDERS: Final = ("at once", "at last")


def scheduling_differences(values: Sequence[Object], plan: ProvisioningPlan, catalog: Iterable[InstanceType], features: Features) -> list[str]:
    """Planned pods that the scheduler does not bind where the plan says, and what it does instead.

    All pods that wait are tried in their turn, those of no plan too, but for those of which nobody can know. Whoever
    found no node is tried again; a plan holds in both `ORDERS`. It promises nothing of pods that it says hang on these.
    """
    types = tuple(catalog)
    return [text for order in RETRY_ORDERS for text in _differences(values, plan, types, features, order)]


def _differences(
    values: Sequence[Object], plan: ProvisioningPlan, catalog: Iterable[InstanceType], features: Features, order: str
) -> list[str]:
    demand = read_demand(values, features)
    inventory = Inventory(features)
    machines = NodeCache(inventory)
    types = {one.key: one for one in catalog}
    for machine in plan.machines:
        machines.put(_node(machine, types[machine.instance], features.kube))
        for one in _slices(machine, features.kube):
            inventory.put_slice(one)
    for node in demand.objects.nodes:
        machines.put(to_tree(node))
    for value in values:
        if isinstance(value, ResourceSlice):
            inventory.put_slice(value)
    for device_class in (*(one for vendor in CLASSES.values() for one in vendor), *demand.objects.classes.values()):
        inventory.put_class(device_class)
    for resident, where in demand.residents:
        machines.assign_pod(resident, where)
    ledger = ClaimLedger(inventory)
    for claim in demand.objects.claims.values():
        ledger.put(_tree(claim))
    groups = cast(PodGroups, _NoGroups())
    attempts = SchedulingAlgorithm(machines, ledger, Allocator(inventory), features, {}, groups)
    expected = {seat.pod: seat.node for seat in (*plan.existing, *(s for m in plan.machines for s in m.seats))}
    untold = {one.pod for one in plan.unserved if one.code in ("gang", "run-time-only", "order")}
    demands = PodRequirementsCache()
    left: list[PendingPod] = []
    found: dict[ObjectKey, str] = {}

    def take(waiting: PendingPod) -> bool:
        tree = _pod(waiting, expected.get(waiting.key, ""))
        place = _schedule(attempts, QueuedPod(tree, demands.of(tree["spec"])))
        if place:
            found[waiting.key] = place
        return bool(place)

    def again() -> None:
        """The first of those that are left that finds a node, again and again."""
        while (lucky := next((one for one in left if take(one)), None)) is not None:
            left.remove(lucky)

    for waiting in demand.pending:
        if waiting.key in untold or (waiting.key not in expected and _depends_on_topology(waiting)):
            continue
        for claim in waiting.claims.pending:
            if claim.key not in ledger.known:
                ledger.put(_tree(claim, waiting))
        if not take(waiting):
            left.append(waiting)
        elif order == "at once":
            again()
    again()
    return [
        f"{one.key}: planned on {expected.get(one.key)!r}, the scheduler, trying again {order}, says {place!r}"
        for one in demand.pending
        if (place := found.get(one.key)) != expected.get(one.key)
    ]


def _depends_on_topology(waiting: PendingPod) -> bool:
    """Whether its claims ask for what nobody knows of a machine before it runs."""
    constraints = [one for claim in waiting.claims.pending for one in claim.spec.devices.constraints]
    return any("pcieRoot" in (one.match_attribute or one.distinct_attribute or "") for one in constraints)


def _schedule(attempts: SchedulingAlgorithm, pod: QueuedPod) -> str:
    claims = resolve_claims(pod.tree, attempts.ledger)
    assert isinstance(claims, list)
    outcome = attempts.schedule(pod, claims)
    if not isinstance(outcome, NodeAssignment):
        return ""
    for claim, allocation in outcome.allocations:
        booked = attempts.ledger.plan(claim.key, pod.uid, allocation)
        user = {"resource": "pods", "name": pod.key.name, "uid": pod.uid}
        attempts.ledger.in_flight.pop(claim.key)
        attempts.ledger.put({**claim.tree, "status": {"allocation": booked, "reservedFor": [user]}})
    if outcome.extended is not None:
        key = ObjectKey(pod.key.namespace, f"{pod.key.name}-extended")
        attempts.ledger._inventory.allocate(key, outcome.extended[1])
    attempts.machines.assign_pod(pod.resident, outcome.node)
    return outcome.node


def _pod(waiting: PendingPod, node: str) -> Tree:
    tree = to_tree(waiting.pod)
    tree["metadata"]["uid"] = tree["metadata"].get("uid") or str(waiting.key)
    made = {
        claim.metadata.annotations.get("resource.kubernetes.io/pod-claim-name"): claim
        for claim in waiting.claims.pending
    }
    statuses = [
        {"name": entry, "resourceClaimName": claim.metadata.name} for entry, claim in made.items() if entry is not None
    ]
    tree["status"] = {"phase": "Pending", "nominatedNodeName": node, "resourceClaimStatuses": statuses}
    return tree


def _tree(claim: ResourceClaim, waiting: PendingPod | None = None) -> Tree:
    tree = to_tree(claim)
    tree["metadata"]["uid"] = tree["metadata"].get("uid") or str(claim.key)
    for owner in tree["metadata"].get("ownerReferences") or ():
        if waiting is not None:
            owner["uid"] = waiting.pod.metadata.uid or str(waiting.key)
    return tree


def _node(machine: PlannedMachine, instance: InstanceType, kube: str) -> Tree:
    made = template_of(instance, "", machine.node, zone=machine.zone, capacity_type=machine.capacity_type, kube=kube)
    tree = to_tree(made.node)
    assert tree["metadata"]["labels"] == machine.labels
    return tree


def _slices(machine: PlannedMachine, kube: str) -> tuple[ResourceSlice, ...]:
    if not machine.form:
        return ()
    (hardware,) = parse_fleet([f"{machine.node}={machine.form}"])
    return slices_of(hardware.hardware, hardware.mode, machine.node, kube)
