"""The parts of a pod's spec that a scheduler reads, as values; everything else of a pod is taken from its tree."""

from __future__ import annotations

from msgspec import field

from allotment.model.core import NodeAffinity, PodResourceClaim, ResourceRequirements, Toleration
from allotment.model.meta import Value
from allotment.model.quantity import Quantity


class ContainerPort(Value, frozen=True):
    """A port of a container; only one on the host keeps other pods away."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = field(name="hostIP", default="")


class Container(Value, frozen=True):
    """A container; an init container that restarts always is a sidecar."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    ports: tuple[ContainerPort, ...] = ()


class LabelSelectorRequirement(Value, frozen=True):
    """``key operator values``; operators In, NotIn, Exists, DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Value, frozen=True):
    """All must hold; an empty selector matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class PodAffinityTerm(Value, frozen=True):
    """Pods to be near to, or far from, counted over the nodes that share a value of ``topology_key``."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Value, frozen=True):
    """A term that makes a node better or worse."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Value, frozen=True):
    """Terms that must hold and terms that should."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Value, frozen=True):
    """To nodes, to pods, and away from pods."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Value, frozen=True):
    """How unevenly matching pods may lie over the values of ``topology_key``."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PodSpec(Value, frozen=True):
    """What decides where a pod may go."""

    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    overhead: dict[str, Quantity] = {}
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    resources: ResourceRequirements | None = None
