"""Reads the demand from the objects of a cluster: pending pods with their claims, running pods, classes and gangs.

Pods that cannot be scheduled on any machine (a missing claim, an invalid manifest, a scheduling gate) are reported one
by one; the others are planned as if these did not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from allotment.engine.refusal import Diagnosis
from allotment.explanation.extended_resources import extended_claim, served_by_classes
from allotment.explanation.input import ExplainInput, sort_objects
from allotment.explanation.origin_mapping import owner_of
from allotment.fleet.device_classes import CLASSES
from allotment.model.core import Namespace, Pod, PodSpec, Taint
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import DeviceClass, ResourceClaim
from allotment.model.trees import to_tree
from allotment.model.workload_pods import pods_of
from allotment.model.workloads import DaemonSet
from allotment.node_fit.assigned_pod import AssignedPod
from allotment.node_fit.filters.inter_pod_affinity import Namespaces
from allotment.node_fit.filters.node_eligibility import tolerates
from allotment.node_fit.pod_requirements import PodRequirements, PodRequirementsCache
from allotment.planning.pending_pods.pod_claims import PodClaims, claims_of
from allotment.planning.pending_pods.volumes import VolumeTopologies, VolumeTopology
from allotment.planning.report import UnservedPod

#: Labels and annotations with the name of a pod's gang, which is unique in its namespace.
GANG_LABELS: Final = (
    "allotment.dev/gang",
    "scheduling.x-k8s.io/pod-group",  # the coscheduling plugin
    "pod-group.scheduling.sigs.k8s.io",  # the same, in earlier versions
    "scheduling.k8s.io/group-name",  # Volcano, an annotation
    "kueue.x-k8s.io/pod-group-name",
)


def gang_of(pod: Pod) -> str:
    """The gang of a pod as ``namespace/name``; empty if it has none.

    >>> from allotment.model.meta import ObjectMeta
    >>> gang_of(Pod(metadata=ObjectMeta(name="a-0", namespace="ml", labels={"allotment.dev/gang": "a"})))
    'ml/a'
    """
    name = ""
    if pod.spec.scheduling_group is not None:
        name = pod.spec.scheduling_group.pod_group_name or ""
    if not name:
        marked = (pod.metadata.labels.get(mark) or pod.metadata.annotations.get(mark) for mark in GANG_LABELS)
        name = next((value for value in marked if value), "")
    return f"{pod.metadata.namespace}/{name}" if name else ""


#: Node selector operators that match a missing label.
_MATCH_MISSING_LABELS: Final = ("NotIn", "DoesNotExist")
_FINISHED: Final = ("Succeeded", "Failed")


@dataclass(slots=True, eq=False)
class PendingPod:
    """A pod without a node. ``order``: its position in the scheduler's queue: by priority, then age, then input."""

    pod: Pod
    key: ObjectKey
    owner: str
    requirements: PodRequirements
    resident: AssignedPod
    claims: PodClaims
    device_resources: frozenset[str]
    """Its extended resources that DeviceClasses provide on nodes that do not publish them."""
    gang: str
    order: int = 0

    def extended_resource_claim(self, missing: frozenset[str], demand: ClusterDemand) -> ResourceClaim | None:
        """The claim that the scheduler creates for extended resources that a node misses; None if there is none."""
        if not missing:
            return None
        containers = (*self.pod.spec.init_containers, *self.pod.spec.containers)
        names = {name for c in containers for name in (*c.resources.requests, *c.resources.limits)}
        plugin_resources = frozenset(name for name in names if name not in missing)
        claim = extended_claim(self.pod, demand.classes, demand.features, plugin_resources)
        return None if isinstance(claim, Diagnosis) else claim


@dataclass(slots=True)
class ClusterDemand:
    """The pending pods and the cluster.

    ``pending``: in the scheduler's order. ``residents``: pods on nodes, with their node. ``assumed_classes``: classes
    that are not among the objects and are taken from the vendors' charts.
    """

    objects: ExplainInput
    pending: tuple[PendingPod, ...]
    unserved: tuple[UnservedPod, ...]
    residents: tuple[tuple[AssignedPod, str], ...]
    daemons: tuple[tuple[PodRequirements, AssignedPod], ...]
    """One pod of each DaemonSet, which runs on every new node that it is eligible for."""
    classes: Mapping[str, DeviceClass]
    assumed_classes: tuple[str, ...]
    namespaces: Namespaces
    broken_gangs: frozenset[str] = frozenset()
    """Gangs with a pod that cannot be scheduled."""
    notes: tuple[str, ...] = ()

    @property
    def features(self) -> Features:
        return self.objects.features


@dataclass(slots=True)
class _PodReader:
    """Reads pods; collects the pods that cannot be scheduled."""

    objects: ExplainInput
    classes: Mapping[str, DeviceClass]
    volumes: VolumeTopologies
    demands: PodRequirementsCache = field(default_factory=PodRequirementsCache)
    requirements: dict[int, tuple[PodSpec, PodRequirements]] = field(default_factory=dict)
    unserved: list[UnservedPod] = field(default_factory=list)
    broken_gangs: set[str] = field(default_factory=set)

    def requirements_on_node(self, pod: Pod) -> PodRequirements:
        """The requirements of a running pod, including those of a resize in progress."""
        return self.demands.of(to_tree(pod.spec), to_tree(pod.status))

    def requirements_of(self, spec: PodSpec) -> PodRequirements:
        """The requirements of a spec. Replicas share one spec object, so that it is read once."""
        known = self.requirements.get(id(spec))
        if known is None:
            known = self.requirements[id(spec)] = (spec, self.demands.of(to_tree(spec)))
        return known[1]

    def resident(self, pod: Pod, requirements: PodRequirements) -> AssignedPod:
        metadata = pod.metadata
        return AssignedPod(
            uid=metadata.uid or f"{metadata.namespace}/{metadata.name}",
            namespace=metadata.namespace,
            name=metadata.name,
            labels=metadata.labels,
            priority=pod.spec.priority or 0,
            requirements=requirements,
            started=metadata.creation_timestamp or "",
            terminating=metadata.deletion_timestamp is not None,
        )

    def pending(self, pod: Pod) -> PendingPod | None:
        """The pod as a `PendingPod`; None if it cannot be scheduled, which is then recorded."""
        owner = owner_of(pod)
        gates = [gate.name for gate in pod.spec.scheduling_gates]
        if gates:
            self._add_unserved(pod, owner, "not-ready", f"scheduling gate {gates[0]} has not been removed")
            return None
        claims = claims_of(pod, owner, self.objects, self.objects.claims, self.classes)
        if isinstance(claims, Diagnosis):
            refusal = claims.headline
            self._add_unserved(pod, owner, refusal.code, refusal.summary, claims)
            return None
        deleted_claim = next((c for c in (*claims.pending, *claims.allocated) if c.metadata.deletion_timestamp), None)
        if deleted_claim is not None:
            self._add_unserved(pod, owner, "not-ready", f"ResourceClaim {deleted_claim.key} is being deleted")
            return None
        topology = self.volumes.of_pod(pod) if pod.spec.volumes else VolumeTopology()
        if topology.problem:
            self._add_unserved(pod, owner, "not-ready", topology.problem)
            return None
        pod = self.volumes.with_volume_affinity(pod, topology.nodes)
        requirements = self.requirements_of(pod.spec)
        return PendingPod(
            pod, pod.key, owner, requirements, self.resident(pod, requirements), claims,
            served_by_classes(self.classes, requirements, self.objects.features), gang_of(pod),
        )  # fmt: skip

    def _add_unserved(self, pod: Pod, owner: str, code: str, text: str, reasons: Diagnosis | None = None) -> None:
        if gang := gang_of(pod):
            self.broken_gangs.add(gang)
        self.unserved.append(UnservedPod(pod=pod.key, owner=owner, code=code, text=text, reasons=reasons))


def read_demand(values: Iterable[Object], features: Features) -> ClusterDemand:
    """The demand of the objects of a cluster and of new manifests, in order.

    A workload counts as the pods that its controller would create, unless it comes from an API server and its pods are
    among the objects.
    """
    objects = sort_objects(_latest(values), features)
    classes, assumed = _classes(objects)
    reader = _PodReader(objects, classes, VolumeTopologies(objects))
    pending: list[PendingPod] = []
    residents: list[tuple[AssignedPod, str]] = []
    for pod in _pods(objects):
        if pod.spec.node_name:
            if pod.status.phase not in _FINISHED:
                residents.append((reader.resident(pod, reader.requirements_on_node(pod)), pod.spec.node_name))
        elif pod.status.phase in ("", "Pending") and pod.metadata.deletion_timestamp is None:
            found = reader.pending(pod)
            if found is not None:
                pending.append(found)
    # Existing pods are older than those that are not created yet, which keep the order of the files (stable sort).
    pending.sort(key=lambda each: (-each.resident.priority, not each.resident.started, each.resident.started))
    for order, found in enumerate(pending):
        found.order = order
    return ClusterDemand(
        objects=objects,
        pending=tuple(pending),
        unserved=tuple(reader.unserved),
        residents=tuple(residents),
        daemons=tuple(_daemons(objects, reader)),
        classes=classes,
        assumed_classes=assumed,
        namespaces={name: _labels(namespace) for name, namespace in objects.namespaces.items()},
        broken_gangs=frozenset(reader.broken_gangs),
        notes=tuple(_notes(objects)),
    )


def _latest(values: Iterable[Object]) -> list[Object]:
    """The last of objects with equal kind and key, at the position of the first, as if both were applied."""
    return list({(type(value), value.key): value for value in values}.values())


def _pods(objects: ExplainInput) -> Iterable[Pod]:
    stored = any(pod.metadata.uid for pod in objects.pods)
    nodes = [node.metadata.name for node in objects.nodes]
    known: set[ObjectKey] = set()
    for value in objects.workloads:
        if not isinstance(value, Pod) and value.metadata.uid and stored:
            continue
        for pod in pods_of(value, nodes=nodes):
            key = pod.key
            if key not in known:
                known.add(key)
                yield pod


def _classes(objects: ExplainInput) -> tuple[dict[str, DeviceClass], tuple[str, ...]]:
    """The given classes, and the vendors' classes that are missing, as a new machine's driver chart installs them."""
    classes = dict(objects.classes)
    assumed = [class_ for vendor in CLASSES.values() for class_ in vendor if class_.metadata.name not in classes]
    for class_ in assumed:
        classes[class_.metadata.name] = class_
    return classes, tuple(class_.metadata.name for class_ in assumed)


def _daemons(objects: ExplainInput, reader: _PodReader) -> Iterable[tuple[PodRequirements, AssignedPod]]:
    for value in objects.workloads:
        if isinstance(value, DaemonSet):
            # Without the affinity that pins a daemon pod to its node, to check it on every node; with the tolerations
            # that the controller adds.
            pod = next(iter(pods_of(value, nodes=("any",), limit=1)), None)
            if pod is not None:
                tree = to_tree(value.spec.template.spec)
                tree["tolerations"] = to_tree(pod.spec).get("tolerations", [])
                requirements = reader.demands.of(tree)
                yield requirements, reader.resident(pod, requirements)


def _labels(namespace: Namespace) -> Mapping[str, str]:
    return namespace.metadata.labels


def _notes(objects: ExplainInput) -> Iterable[str]:
    for (kind, key), errors in objects.refused.items():
        if kind == "ResourceSlice":
            yield f"ResourceSlice {key} is ignored because it is invalid: {errors[0]}"
    for value in objects.workloads:
        if isinstance(value, DaemonSet) and value.spec.template.spec.resource_claims:
            yield f"DaemonSet {value.key} uses claims; devices for its pods on new machines are not counted"


def selected_labels(pod: PendingPod) -> set[str]:
    """The labels that a pod's node selector and node affinity read."""
    requirements = pod.requirements
    keys = {key for key, _ in requirements.node_selector}
    for term in requirements.required.node_selector_terms if requirements.required is not None else ():
        keys.update(requirement.key for requirement in term.match_expressions)
    return keys


def required_labels(pod: PendingPod) -> set[str]:
    """Labels that a node must have to match the pod's node selector and required affinity."""
    requirements = pod.requirements
    terms = requirements.required.node_selector_terms if requirements.required is not None else ()
    keys_by_term = [
        {requirement.key for requirement in term.match_expressions if requirement.operator not in _MATCH_MISSING_LABELS}
        for term in terms
    ]
    return {key for key, _ in requirements.node_selector}.union(set.intersection(*keys_by_term) if keys_by_term else ())


def untolerated(pod: PendingPod, taints: Iterable[Taint]) -> str:
    """The first taint that excludes a pod, as text; empty if there is none."""
    for taint in taints:
        if taint.effect != "PreferNoSchedule" and not tolerates(pod.requirements.tolerations, taint):
            return f"taint {taint.key}{f'={taint.value}' if taint.value else ''} is not tolerated"
    return ""
