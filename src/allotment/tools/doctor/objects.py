"""Kubernetes objects with the additional fields that the checks read.

Allocation does not need conditions of nodes or versions of kubelets, so the types of `allotment.model` do not have
them. The types here are subclasses with more fields.
"""

from __future__ import annotations

from typing import Final

from msgspec import field

from allotment.model import core, storage
from allotment.model.decoding import VALUE_TYPES
from allotment.model.meta import Condition, Object, Value
from allotment.model.quantity import Quantity
from allotment.model.server_facts import API_VERSION, KIND, ServerFacts


class WaitingState(Value, frozen=True):
    """The reason why a container is not running."""

    reason: str = ""
    message: str = ""


class ContainerState(Value, frozen=True):
    """The state of a container, without running and terminated states."""

    waiting: WaitingState | None = None


class ResourceHealth(Value, frozen=True):
    """``Healthy``, ``Unhealthy`` or ``Unknown`` (KEP-4680)."""

    resource_id: str = field(name="resourceID", default="")
    health: str = ""
    message: str = ""


class AllocatedResourceStatus(Value, frozen=True):
    """The health of a container's resource; the name is ``claim:NAME/REQUEST`` for devices."""

    name: str = ""
    resources: tuple[ResourceHealth, ...] = ()


class ContainerStatus(core.ContainerStatus, frozen=True):
    """The status of a container with its state and the health of its devices."""

    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    allocated_resources_status: tuple[AllocatedResourceStatus, ...] = ()


class PodStatus(core.PodStatus, frozen=True):
    """The status of a pod with its containers."""

    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class HostPath(Value, frozen=True):
    """A hostPath volume source."""

    path: str = ""


class PodVolume(storage.PodVolume, frozen=True):
    """A volume of a pod, including hostPath volumes."""

    host_path: HostPath | None = None


class Container(core.Container, frozen=True):
    """A container with its command line."""

    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


class PodSpec(core.PodSpec, frozen=True):
    """The spec of a pod with command lines, and with volumes, by which drivers are recognized."""

    containers: tuple[Container, ...] = ()
    volumes: tuple[PodVolume, ...] = ()


class Pod(core.Pod, frozen=True):
    """A pod with its state."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeInfo(Value, frozen=True):
    """The versions of a node's software."""

    kubelet_version: str = ""


class NodeStatus(core.NodeStatus, frozen=True):
    """The status of a node with conditions and versions."""

    conditions: tuple[Condition, ...] = ()
    node_info: NodeInfo = NodeInfo()


class Node(core.Node, frozen=True):
    """A node with its state."""

    status: NodeStatus = NodeStatus()


class ObjectReference(Value, frozen=True):
    """A reference to the object of an event."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventSource(Value, frozen=True):
    """The component that created an event."""

    component: str = ""


class Event(Object, frozen=True):
    """A core/v1 Event."""

    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    source: EventSource = EventSource()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None


class ResourceQuotaStatus(Value, frozen=True):
    """The limits and the usage of a quota."""

    hard: dict[str, Quantity] = {}
    used: dict[str, Quantity] = {}


class ResourceQuota(Object, frozen=True):
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class LeaseSpec(Value, frozen=True):
    """The duration of a Lease and the time of its last renewal."""

    lease_duration_seconds: int | None = None
    renew_time: str | None = None


class Lease(Object, frozen=True):
    """The Lease of a component with leader election, such as a scheduler."""

    spec: LeaseSpec = LeaseSpec()


#: The types of objects by group and kind.
TYPES: Final[dict[tuple[str, str], type[Object]]] = {
    **VALUE_TYPES,
    ("", "Pod"): Pod,
    ("", "Node"): Node,
    ("", "Event"): Event,
    ("", "ResourceQuota"): ResourceQuota,
    ("coordination.k8s.io", "Lease"): Lease,
    (API_VERSION.partition("/")[0], KIND): ServerFacts,
}
