"""Where a pod may go, as it says itself: ports of the host, pods to be near to or far from, spread.

Apart from the rest of a pod because only placing reads it, and that everywhere in the same way.
"""

from __future__ import annotations

from msgspec import field

from allotment.model.meta import Value


class ContainerPort(Value, frozen=True):
    """A port of a container; only one on the host keeps other pods away."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = field(name="hostIP", default="")


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


class PodSchedulingGate(Value, frozen=True):
    """Something that must happen before the pod may be scheduled."""

    name: str = ""
