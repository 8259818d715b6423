"""What waits, as a planner counts it: pods in groups that ask for the same, and what must stay together.

Pods that cannot be tried whatever is bought (a claim that is missing, a manifest that the API server refuses, a gate
that is closed) are named one by one; the others are planned as if those were not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from allotment.engine.refusal import Diagnosis
from allotment.fleet.device_classes import CLASSES
from allotment.model.core import Namespace, Pod, PodSpec
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import DeviceClass, ResourceClaim
from allotment.model.trees import to_tree
from allotment.model.workload_pods import pods_of
from allotment.model.workloads import DaemonSet
from allotment.node_fit.assigned_pod import Resident
from allotment.node_fit.filters.inter_pod_affinity import Namespaces
from allotment.node_fit.pod_requirements import Demand as Asked
from allotment.node_fit.pod_requirements import Demands
from allotment.tools.explain.extended_resources import extended_claim, served
from allotment.tools.explain.input import Input, sort
from allotment.tools.explain.origin_mapping import owner_of
from allotment.tools.plan.pending_pods.pod_claims import Claims, claims_of
from allotment.tools.plan.pending_pods.volumes import Reach, Volumes
from allotment.tools.plan.report import Unserved

#: Labels and annotations by which schedulers know a gang. Its name is unique in a namespace.
MARKS: Final = (
    "allotment.dev/gang",
    "scheduling.x-k8s.io/pod-group",  # the coscheduling plugin
    "pod-group.scheduling.sigs.k8s.io",  # the same, before
    "scheduling.k8s.io/group-name",  # Volcano, an annotation
    "kueue.x-k8s.io/pod-group-name",
)


def gang_of(pod: Pod) -> str:
    """The gang that a pod is in, as ``namespace/name``; empty for none.

    >>> from allotment.model.meta import ObjectMeta
    >>> gang_of(Pod(metadata=ObjectMeta(name="a-0", namespace="ml", labels={"allotment.dev/gang": "a"})))
    'ml/a'
    """
    name = ""
    if pod.spec.scheduling_group is not None:
        name = pod.spec.scheduling_group.pod_group_name or ""
    if not name:
        marked = (pod.metadata.labels.get(mark) or pod.metadata.annotations.get(mark) for mark in MARKS)
        name = next((found for found in marked if found), "")
    return f"{pod.metadata.namespace}/{name}" if name else ""


_FINISHED: Final = ("Succeeded", "Failed")


@dataclass(slots=True, eq=False)
class Waiting:
    """A pod without a node. ``order``: its place in the scheduler's queue, by priority, then age, then as given."""

    pod: Pod
    key: ObjectKey
    owner: str
    asked: Asked
    resident: Resident
    claims: Claims
    by_devices: frozenset[str]
    """Its extended resources that DeviceClasses serve where a node has none of them itself."""
    gang: str
    order: int = 0

    def extended(self, lacking: frozenset[str], demand: Demand) -> ResourceClaim | None:
        """The claim that the scheduler makes for extended resources on nodes that lack these."""
        if not lacking:
            return None
        containers = (*self.pod.spec.init_containers, *self.pod.spec.containers)
        names = {name for c in containers for name in (*c.resources.requests, *c.resources.limits)}
        plugins = frozenset(name for name in names if name not in lacking)
        claim = extended_claim(self.pod, demand.classes, demand.features, plugins)
        return None if isinstance(claim, Diagnosis) else claim


@dataclass(slots=True)
class Demand:
    """All that waits, and the cluster that it waits in.

    ``waiting``: in the scheduler's order. ``residents``: pods on nodes, with their node. ``assumed``: classes that
    nobody gave and that are taken as the vendors' charts install them.
    """

    given: Input
    waiting: tuple[Waiting, ...]
    unserved: tuple[Unserved, ...]
    residents: tuple[tuple[Resident, str], ...]
    daemons: tuple[tuple[Asked, Resident], ...]
    """One pod of each DaemonSet: it will be on every new node that it may go to."""
    classes: Mapping[str, DeviceClass]
    assumed: tuple[str, ...]
    namespaces: Namespaces
    broken: frozenset[str] = frozenset()
    """Gangs of which some pod cannot even be tried."""
    notes: tuple[str, ...] = ()

    @property
    def features(self) -> Features:
        """Of the cluster."""
        return self.given.features


@dataclass(slots=True)
class _Reading:
    """The state while pods are read."""

    given: Input
    classes: Mapping[str, DeviceClass]
    volumes: Volumes
    demands: Demands = field(default_factory=Demands)
    asked: dict[int, tuple[PodSpec, Asked]] = field(default_factory=dict)
    unserved: list[Unserved] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)

    def asked_on_node(self, pod: Pod) -> Asked:
        """Of a pod on a node, where it may be being resized."""
        return self.demands.of(to_tree(pod.spec), to_tree(pod.status))

    def asked_of(self, spec: PodSpec) -> Asked:
        """Replicas share one spec object, so it is read once."""
        known = self.asked.get(id(spec))
        if known is None:
            known = self.asked[id(spec)] = (spec, self.demands.of(to_tree(spec)))
        return known[1]

    def resident(self, pod: Pod, asked: Asked) -> Resident:
        metadata = pod.metadata
        return Resident(
            uid=metadata.uid or f"{metadata.namespace}/{metadata.name}",
            namespace=metadata.namespace,
            name=metadata.name,
            labels=metadata.labels,
            priority=pod.spec.priority or 0,
            demand=asked,
            started=metadata.creation_timestamp or "",
            terminating=metadata.deletion_timestamp is not None,
        )

    def waiting(self, pod: Pod) -> Waiting | None:
        """The pod as one that waits; None if that is told already why it cannot be tried."""
        owner = owner_of(pod)
        gates = [gate.name for gate in pod.spec.scheduling_gates]
        if gates:
            self._refuse(pod, owner, "not-ready", f"scheduling gate {gates[0]} is not removed yet")
            return None
        claims = claims_of(pod, owner, self.given, self.given.claims, self.classes)
        if isinstance(claims, Diagnosis):
            told = claims.headline
            self._refuse(pod, owner, told.code, told.summary, claims)
            return None
        going = next((c for c in (*claims.pending, *claims.before) if c.metadata.deletion_timestamp), None)
        if going is not None:
            self._refuse(pod, owner, "not-ready", f"ResourceClaim {going.key} is being deleted")
            return None
        reach = self.volumes.reach(pod) if pod.spec.volumes else Reach()
        if reach.missing:
            self._refuse(pod, owner, "not-ready", reach.missing)
            return None
        pod = self.volumes.narrowed(pod, reach.nodes)
        asked = self.asked_of(pod.spec)
        return Waiting(
            pod, pod.key, owner, asked, self.resident(pod, asked), claims,
            served(self.classes, asked, self.given.features), gang_of(pod),
        )  # fmt: skip

    def _refuse(self, pod: Pod, owner: str, code: str, text: str, reasons: Diagnosis | None = None) -> None:
        if gang := gang_of(pod):
            self.broken.add(gang)
        self.unserved.append(Unserved(pod=pod.key, owner=owner, code=code, text=text, reasons=reasons))


def demand_of(values: Iterable[Object], features: Features) -> Demand:
    """What waits among the objects of a cluster and those that are to come, decoded, in order.

    A pod that waits stands for itself, a workload for the pods that its controllers would make; one that an API server
    has seen for none if its pods are among the objects.
    """
    given = sort(_latest(values), features)
    classes, assumed = _classes(given)
    reading = _Reading(given, classes, Volumes(given))
    waiting: list[Waiting] = []
    residents: list[tuple[Resident, str]] = []
    for pod in _pods(given):
        if pod.spec.node_name:
            if pod.status.phase not in _FINISHED:
                residents.append((reading.resident(pod, reading.asked_on_node(pod)), pod.spec.node_name))
        elif pod.status.phase in ("", "Pending") and pod.metadata.deletion_timestamp is None:
            found = reading.waiting(pod)
            if found is not None:
                waiting.append(found)
    # Pods that are there are older than those that nobody has made yet. Stable: these keep the order of the files.
    waiting.sort(key=lambda one: (-one.resident.priority, not one.resident.started, one.resident.started))
    for order, one in enumerate(waiting):
        one.order = order
    return Demand(
        given=given,
        waiting=tuple(waiting),
        unserved=tuple(reading.unserved),
        residents=tuple(residents),
        daemons=tuple(_daemons(given, reading)),
        classes=classes,
        assumed=assumed,
        namespaces={name: _labels(one) for name, one in given.namespaces.items()},
        broken=frozenset(reading.broken),
        notes=tuple(_notes(given)),
    )


def _latest(values: Iterable[Object]) -> list[Object]:
    """Of two objects of one name the later one, in the place of the first, as when both are applied."""
    return list({(type(value), value.key): value for value in values}.values())


def _pods(given: Input) -> Iterable[Pod]:
    stored = any(pod.metadata.uid for pod in given.pods)
    nodes = [node.metadata.name for node in given.nodes]
    seen: set[ObjectKey] = set()
    for value in given.workloads:
        if not isinstance(value, Pod) and value.metadata.uid and stored:
            continue
        for pod in pods_of(value, nodes=nodes):
            key = pod.key
            if key not in seen:
                seen.add(key)
                yield pod


def _classes(given: Input) -> tuple[dict[str, DeviceClass], tuple[str, ...]]:
    """The classes that are given, and of the vendors' own those that are not: a new machine's driver brings them."""
    classes = dict(given.classes)
    assumed = [one for vendor in CLASSES.values() for one in vendor if one.metadata.name not in classes]
    for one in assumed:
        classes[one.metadata.name] = one
    return classes, tuple(one.metadata.name for one in assumed)


def _daemons(given: Input, reading: _Reading) -> Iterable[tuple[Asked, Resident]]:
    for value in given.workloads:
        if isinstance(value, DaemonSet):
            # Without the affinity that pins a daemon pod to its node, so that every node can be asked; with the
            # tolerations that the controller adds.
            pod = next(iter(pods_of(value, nodes=("any",), limit=1)), None)
            if pod is not None:
                tree = to_tree(value.spec.template.spec)
                tree["tolerations"] = to_tree(pod.spec).get("tolerations", [])
                asked = reading.demands.of(tree)
                yield asked, reading.resident(pod, asked)


def _labels(namespace: Namespace) -> Mapping[str, str]:
    return namespace.metadata.labels


def _notes(given: Input) -> Iterable[str]:
    for (kind, key), errors in given.refused.items():
        if kind == "ResourceSlice":
            yield f"ResourceSlice {key} is left out, the API server refuses it: {errors[0]}"
    for value in given.workloads:
        if isinstance(value, DaemonSet) and value.spec.template.spec.resource_claims:
            yield f"DaemonSet {value.key} claims devices: what its pods take of new machines is not counted"


def asked_labels(pod: Waiting) -> set[str]:
    """Labels that a pod's node selector and affinity read."""
    asked = pod.asked
    keys = {key for key, _ in asked.node_selector}
    for term in asked.required.node_selector_terms if asked.required is not None else ():
        keys.update(requirement.key for requirement in term.match_expressions)
    return keys
