"""Objects of core/v1 as far as device allocation reads them: pods, nodes, namespaces.

The types contain only the fields that Allotment reads. Strict decoding checks the whole object before.
"""

from __future__ import annotations

from typing import Final

from msgspec import field

from allotment.model.meta import Condition, Object, ObjectMeta, Value
from allotment.model.node_selectors import NodeSelector, NodeSelectorTerm
from allotment.model.quantity import Quantity
from allotment.model.storage import PodVolume


class ContainerPort(Value, frozen=True):
    """A port of a container; only a host port conflicts with other pods."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = field(name="hostIP", default="")


class LabelSelectorRequirement(Value, frozen=True):
    """``key operator values``; operators In, NotIn, Exists, DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Value, frozen=True):
    """All requirements must match; an empty selector matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class PodAffinityTerm(Value, frozen=True):
    """Pods to be placed together with or apart from, among the nodes with the same value of ``topology_key``."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Value, frozen=True):
    """A term that changes the score of a node."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Value, frozen=True):
    """Required and preferred terms."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class TopologySpreadConstraint(Value, frozen=True):
    """The maximum skew of matching pods over the values of ``topology_key``."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGate(Value, frozen=True):
    """A gate that must be removed before the pod can be scheduled."""

    name: str = ""


# --- Pod ---------------------------------------------------------------------------------------------------------


class ContainerResourceClaim(Value, frozen=True):
    """A reference of a container to a claim of the pod, or to one top-level ``request`` of it."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Value, frozen=True):
    """Amounts by resource name; devices can back extended resources."""

    limits: dict[str, Quantity] = {}
    requests: dict[str, Quantity] = {}
    claims: tuple[ContainerResourceClaim, ...] = ()


class Container(Value, frozen=True):
    """A container; an init container with restart policy Always is a sidecar."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    ports: tuple[ContainerPort, ...] = ()


class PodResourceClaim(Value, frozen=True):
    """A claim by name, or the template to generate it from: exactly one is set."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class Toleration(Value, frozen=True):
    """Tolerates node taints; operators Exists and Equal (default)."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PreferredSchedulingTerm(Value, frozen=True):
    """A term that raises the score of a node."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Value, frozen=True):
    """The required and preferred nodes of a pod."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class Affinity(Value, frozen=True):
    """Node affinity, pod affinity and pod anti-affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class PodSchedulingGroup(Value, frozen=True):
    """The PodGroup that a pod belongs to (alpha)."""

    pod_group_name: str | None = None


class PodSpec(Value, frozen=True):
    """The containers of a pod and its scheduling constraints."""

    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    restart_policy: str = ""
    node_selector: dict[str, str] = {}
    node_name: str = ""
    affinity: Affinity | None = None
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    priority_class_name: str = ""
    priority: int | None = None
    overhead: dict[str, Quantity] = {}
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    scheduling_group: PodSchedulingGroup | None = None
    volumes: tuple[PodVolume, ...] = ()


class PodResourceClaimStatus(Value, frozen=True):
    """The claim generated for an entry of ``spec.resourceClaims``; without a name, no claim is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Value, frozen=True):
    """The request of the extended resource claim that serves a container's resource."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Value, frozen=True):
    """The claim that the scheduler created for a pod's extended resources."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class ContainerStatus(Value, frozen=True):
    """The resources of a container on its node, which differ from its spec while it is resized (KEP-1287)."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, Quantity] = {}


class PodStatus(Value, frozen=True):
    """Phases: Pending, Running, Succeeded, Failed, Unknown."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, Quantity] = {}
    nominated_node_name: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


class Pod(Object, frozen=True):
    """A pod, with the fields that affect scheduling and devices."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_pending(self) -> bool:
        """Whether the pod has no node yet and can still get one."""
        unscheduled = not self.spec.node_name and self.status.phase in ("", "Pending")
        return unscheduled and self.metadata.deletion_timestamp is None


class PodTemplateSpec(Value, frozen=True):
    """Metadata and spec of the pods of a workload."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


# --- Node and Namespace ------------------------------------------------------------------------------------------

#: The label with the node's name. Every kubelet sets it; hand-written manifests may omit it.
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"


class Taint(Value, frozen=True):
    """A node taint; effects NoSchedule, PreferNoSchedule, NoExecute."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Value, frozen=True):
    """Whether pods can be scheduled to a node, and its taints."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(Value, frozen=True):
    """The resources of a node, and those available to pods."""

    capacity: dict[str, Quantity] = {}
    allocatable: dict[str, Quantity] = {}
    declared_features: tuple[str, ...] = ()
    """Features of the kubelet that schedulers must know (KEP-5328)."""


class Node(Object, frozen=True):
    """A node; its labels are in its metadata."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(Object, frozen=True):
    """A namespace; DRA reads its labels."""
