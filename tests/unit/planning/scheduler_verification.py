"""Verifies a plan with the scheduler, on nodes that publish the slices of real drivers."""

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
from allotment.planning.pending_pods.demand import PendingPod, read_demand
from allotment.planning.report import PlannedMachine, ProvisioningPlan
from allotment.scheduler.attempt import NodeAssignment, SchedulingAlgorithm
from allotment.scheduler.claim_ledger import ClaimLedger
from allotment.scheduler.pod_groups import PodGroups
from allotment.scheduler.pods import QueuedPod, resolve_claims


class _NoGroups:
    """PodGroups of a cluster without any."""

    def of(self, _: Tree) -> str:
        return ""

    def missing(self, _: Tree) -> str:
        return ""


#: When pods without a node are retried: each time that another pod is bound, or after all pods were tried.
RETRY_ORDERS: Final = ("after-each", "at-end")


def scheduling_differences(
    values: Sequence[Object], plan: ProvisioningPlan, catalog: Iterable[InstanceType], features: Features
) -> list[str]:
    """The pods whose node differs between the plan and the scheduler, as texts.

    All pending pods are scheduled in order, including unserved ones, except those whose placement the plan reports as
    unpredictable. Pods without a node are retried; a plan must hold in both `RETRY_ORDERS`.
    """
    types = tuple(catalog)
    return [text for order in RETRY_ORDERS for text in _differences(values, plan, types, features, order)]


def _differences(
    values: Sequence[Object], plan: ProvisioningPlan, catalog: Iterable[InstanceType], features: Features, order: str
) -> list[str]:
    demand = read_demand(values, features)
    inventory = Inventory(features)
    machines = NodeCache(inventory)
    types = {instance.key: instance for instance in catalog}
    for machine in plan.machines:
        machines.put(_node(machine, types[machine.instance], features.kube))
        for slice_ in _slices(machine, features.kube):
            inventory.put_slice(slice_)
    for node in demand.objects.nodes:
        machines.put(to_tree(node))
    for value in values:
        if isinstance(value, ResourceSlice):
            inventory.put_slice(value)
    for device_class in (
        *(class_ for vendor in CLASSES.values() for class_ in vendor),
        *demand.objects.classes.values(),
    ):
        inventory.put_class(device_class)
    for resident, where in demand.residents:
        machines.assign_pod(resident, where)
    ledger = ClaimLedger(inventory)
    for claim in demand.objects.claims.values():
        ledger.put(_tree(claim))
    groups = cast(PodGroups, _NoGroups())
    attempts = SchedulingAlgorithm(machines, ledger, Allocator(inventory), features, {}, groups)
    expected = {
        placement.pod: placement.node
        for placement in (*plan.existing, *(s for m in plan.machines for s in m.placements))
    }
    unpredictable = {pod.pod for pod in plan.unserved if pod.code in ("gang", "run-time-only", "order")}
    demands = PodRequirementsCache()
    remaining: list[PendingPod] = []
    found: dict[ObjectKey, str] = {}

    def schedule(pending_pod: PendingPod) -> bool:
        tree = _pod(pending_pod, expected.get(pending_pod.key, ""))
        place = _schedule(attempts, QueuedPod(tree, demands.of(tree["spec"])))
        if place:
            found[pending_pod.key] = place
        return bool(place)

    def retry() -> None:
        """Retry the remaining pods until none of them finds a node."""
        while (placed := next((pod for pod in remaining if schedule(pod)), None)) is not None:
            remaining.remove(placed)

    for pending_pod in demand.pending:
        if pending_pod.key in unpredictable or (pending_pod.key not in expected and _depends_on_topology(pending_pod)):
            continue
        for claim in pending_pod.claims.pending:
            if claim.key not in ledger.known:
                ledger.put(_tree(claim, pending_pod))
        if not schedule(pending_pod):
            remaining.append(pending_pod)
        elif order == "after-each":
            retry()
    retry()
    return [
        f"{pod.key}: planned on {expected.get(pod.key)!r}, scheduled on {target!r} with retry order {order}"
        for pod in demand.pending
        if (target := found.get(pod.key)) != expected.get(pod.key)
    ]


def _depends_on_topology(pending_pod: PendingPod) -> bool:
    """Whether its claims depend on topology that is known only when a machine runs."""
    constraints = [constraint for claim in pending_pod.claims.pending for constraint in claim.spec.devices.constraints]
    return any(
        "pcieRoot" in (constraint.match_attribute or constraint.distinct_attribute or "") for constraint in constraints
    )


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


def _pod(pending_pod: PendingPod, node: str) -> Tree:
    tree = to_tree(pending_pod.pod)
    tree["metadata"]["uid"] = tree["metadata"].get("uid") or str(pending_pod.key)
    made = {
        claim.metadata.annotations.get("resource.kubernetes.io/pod-claim-name"): claim
        for claim in pending_pod.claims.pending
    }
    statuses = [
        {"name": entry, "resourceClaimName": claim.metadata.name} for entry, claim in made.items() if entry is not None
    ]
    tree["status"] = {"phase": "Pending", "nominatedNodeName": node, "resourceClaimStatuses": statuses}
    return tree


def _tree(claim: ResourceClaim, pending_pod: PendingPod | None = None) -> Tree:
    tree = to_tree(claim)
    tree["metadata"]["uid"] = tree["metadata"].get("uid") or str(claim.key)
    for owner in tree["metadata"].get("ownerReferences") or ():
        if pending_pod is not None:
            owner["uid"] = pending_pod.pod.metadata.uid or str(pending_pod.key)
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
