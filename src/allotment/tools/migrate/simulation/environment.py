"""The simulated environment: nodes of a fleet or cluster, with device plugins and with drivers, and other pods."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from allotment.fleet import FleetMachine, parse_fleet
from allotment.model.core import HOSTNAME_LABEL, Node, Pod
from allotment.model.meta import Object
from allotment.model.resource import ResourceClaim, ResourceClaimTemplate
from allotment.tools.migrate.label_translation import describes_gpus
from allotment.tools.migrate.plugin_requests import PluginRequest, Term, WorkloadRequests
from allotment.tools.migrate.report import MigratedWorkload, Migration
from allotment.tools.migrate.resource_names import vendor_of
from allotment.tools.migrate.simulation.assumptions import assumptions_of, relaxed
from allotment.tools.migrate.simulation.cluster_nodes import cluster_nodes, extended_of
from allotment.tools.migrate.simulation.fleet_nodes import fleet_nodes, labels_without_plugin
from allotment.tools.migrate.simulation.plugin_node import PluginNode
from allotment.tools.migrate.simulation.subjects import SimulatedWorkload, subjects_of, wants_of
from allotment.tools.migrate.workload_reader import workloads_of
from allotment.tools.views import claim_view


@dataclass(frozen=True, slots=True)
class SimulationEnvironment:
    """The simulated environment.

    ``machines``: of a fleet, empty for a cluster. ``others``: running pods with GPUs that are not in the files.
    ``assumed``: pairs of a workload and a requirement that is assumed to be met.
    """

    migration: Migration
    machines: tuple[FleetMachine, ...]
    subjects: tuple[SimulatedWorkload, ...]
    others: tuple[Pod, ...]
    requests: tuple[PluginRequest, ...]
    terms: tuple[Term, ...]
    assumed: tuple[tuple[str, str], ...]

    def plugin_nodes(self, users: Iterable[Pod]) -> list[PluginNode]:
        """The nodes with their device plugins, minus the GPUs of ``users``."""
        if self.machines:
            return fleet_nodes(self.machines, self.requests, self.terms)
        target = self.migration.target
        return cluster_nodes(target.nodes, target.slices, users)

    def without_plugin(self) -> list[Node]:
        """The nodes without a device plugin; labels of feature discovery remain."""
        if self.machines:
            labels = {machine.node: labels_without_plugin(machine, self.terms) for machine in self.machines}
            return [
                replace(node, metadata=replace(node.metadata, labels=labels[node.metadata.name]))
                for node in self.migration.target.nodes
            ]
        return [_unplugged(node) for node in self.migration.target.nodes]


def environment_of(migration: Migration) -> SimulationEnvironment:
    """The environment of a migration with a known target."""
    target = migration.target
    machines = parse_fleet(target.fleet)
    workloads = workloads_of(migration.before, target, migration.namespace)
    terms = tuple(term for workload in workloads for term in _required(workload) if describes_gpus(term))
    labels = _known_labels(machines, workloads, terms) if machines else None
    claims = _known_claims(migration, bool(machines))
    assumed: list[tuple[str, str]] = []

    def adapted(request: WorkloadRequests, value: Object) -> Object:
        assumptions = assumptions_of(
            request, target, labels, lambda entry: (entry.kind, request.view.key.namespace, entry.refers_to) in claims
        )
        assumed.extend((request.subject, descriptions) for descriptions in assumptions.descriptions())
        return relaxed(value, assumptions)

    subjects = subjects_of(migration, [node.metadata.name for node in target.nodes], adapted)
    return SimulationEnvironment(
        migration=migration,
        machines=machines,
        subjects=subjects,
        others=tuple(_others(target.objects, migration.workloads)),
        requests=tuple(request for workload in workloads for request in wants_of(workload)),
        terms=terms,
        assumed=tuple(dict.fromkeys(assumed)),
    )


def _known_claims(migration: Migration, fleet: bool) -> frozenset[tuple[str, str, str]]:
    """The claims and templates whose devices are known; none for a fleet, which only describes GPUs."""
    if fleet:
        return frozenset()
    views = [view for document in migration.before if (view := claim_view(document, migration.namespace)) is not None]
    found: set[tuple[str, str, str]] = {(view.kind, view.key.namespace, view.key.name) for view in views}
    for value in migration.target.objects:
        if isinstance(value, ResourceClaim | ResourceClaimTemplate):
            found.add((type(value).__name__, value.metadata.namespace, value.metadata.name))
    return frozenset(found)


def _required(workload: WorkloadRequests) -> Iterable[Term]:
    yield from workload.selector
    for terms in workload.affinity:
        yield from terms


def _known_labels(
    machines: tuple[FleetMachine, ...], workloads: Iterable[WorkloadRequests], terms: tuple[Term, ...]
) -> frozenset[str]:
    """All labels of the machines in any plugin setup, except the kubelet's."""
    requests = tuple(request for workload in workloads for request in wants_of(workload))
    nodes = fleet_nodes(machines, requests, terms)
    found = {key for node in nodes for offer in node.offers for key in offer.labels}
    return frozenset(found - {HOSTNAME_LABEL, "node.kubernetes.io/instance-type"})


def _unplugged(node: Node) -> Node:
    left = {name: amount for name, amount in node.status.allocatable.items() if not vendor_of(name)}
    return replace(node, status=replace(node.status, allocatable=left))


def _others(objects: Iterable[Object], workloads: Iterable[MigratedWorkload]) -> Iterable[Pod]:
    """Running pods with GPUs of a device plugin that belong to no workload in the files."""
    named = tuple(workloads)
    for value in objects:
        if isinstance(value, Pod) and value.spec.node_name and value.status.phase not in ("Succeeded", "Failed"):
            if extended_of(value) and not any(_belongs(value, workload) for workload in named):
                yield value


def _belongs(pod: Pod, workload: MigratedWorkload) -> bool:
    if pod.metadata.namespace != workload.namespace:
        return False
    owner = next((reference for reference in pod.metadata.owner_references if reference.controller), None)
    if owner is None:
        return workload.kind == "Pod" and pod.metadata.name == workload.name
    if (owner.kind, owner.name) == (workload.kind, workload.name):
        return True
    if workload.custom and owner.name.startswith(f"{workload.name}-"):
        return True
    made = {"ReplicaSet": "Deployment", "Job": "CronJob"}.get(owner.kind)
    return made == workload.kind and owner.name.rpartition("-")[0] == workload.name
