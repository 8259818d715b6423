"""Objects as a doctor looks at them: with the states that nobody else reads.

Allocation needs no condition of a pod and no version of a kubelet, so the values of `allotment.model` have none. These
are the same values with more fields: whatever takes a Pod takes one of these.
"""

from __future__ import annotations

from typing import Final

from msgspec import field

from allotment.model import core, storage
from allotment.model.decoding import VALUE_TYPES
from allotment.model.meta import Condition, Object, Value
from allotment.model.quantity import Quantity
from allotment.tools.doctor.server_facts import API_VERSION, KIND, ServerFacts


class WaitingState(Value, frozen=True):
    """Why a container does not run."""

    reason: str = ""
    message: str = ""


class ContainerState(Value, frozen=True):
    """Of a container; only what it waits for."""

    waiting: WaitingState | None = None


class ResourceHealth(Value, frozen=True):
    """``Healthy``, ``Unhealthy`` or ``Unknown`` (KEP-4680)."""

    resource_id: str = field(name="resourceID", default="")
    health: str = ""
    message: str = ""


class AllocatedResourceStatus(Value, frozen=True):
    """Health of what a container has of one resource: ``claim:NAME/REQUEST`` for devices."""

    name: str = ""
    resources: tuple[ResourceHealth, ...] = ()


class ContainerStatus(core.ContainerStatus, frozen=True):
    """With whether it runs, what it waits for, and the health of its devices."""

    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    allocated_resources_status: tuple[AllocatedResourceStatus, ...] = ()


class PodStatus(core.PodStatus, frozen=True):
    """With containers."""

    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class HostPath(Value, frozen=True):
    """A folder of the node."""

    path: str = ""


class PodVolume(storage.PodVolume, frozen=True):
    """A volume of a pod, also one of the node's."""

    host_path: HostPath | None = None


class PodSpec(core.PodSpec, frozen=True):
    """With all volumes that tell what a pod is."""

    volumes: tuple[PodVolume, ...] = ()


class Pod(core.Pod, frozen=True):
    """A pod with its state."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeInfo(Value, frozen=True):
    """What runs the node."""

    kubelet_version: str = ""


class NodeStatus(core.NodeStatus, frozen=True):
    """With conditions and versions."""

    conditions: tuple[Condition, ...] = ()
    node_info: NodeInfo = NodeInfo()


class Node(core.Node, frozen=True):
    """A node with its state."""

    status: NodeStatus = NodeStatus()


class ObjectReference(Value, frozen=True):
    """What an event is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventSource(Value, frozen=True):
    """Who says so."""

    component: str = ""


class Event(Object, frozen=True):
    """Something that somebody said of an object."""

    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    source: EventSource = EventSource()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None


class ResourceQuotaStatus(Value, frozen=True):
    """What there may be, and what there is."""

    hard: dict[str, Quantity] = {}
    used: dict[str, Quantity] = {}


class ResourceQuota(Object, frozen=True):
    """A limit of a namespace."""

    status: ResourceQuotaStatus = ResourceQuotaStatus()


class LeaseSpec(Value, frozen=True):
    """How long a Lease holds, and when it was last renewed."""

    lease_duration_seconds: int | None = None
    renew_time: str | None = None


class Lease(Object, frozen=True):
    """Of a program that runs once: a scheduler, a controller manager."""

    spec: LeaseSpec = LeaseSpec()


#: The kinds that are read, by group and kind.
TYPES: Final[dict[tuple[str, str], type[Object]]] = {
    **VALUE_TYPES,
    ("", "Pod"): Pod,
    ("", "Node"): Node,
    ("", "Event"): Event,
    ("", "ResourceQuota"): ResourceQuota,
    ("coordination.k8s.io", "Lease"): Lease,
    (API_VERSION.partition("/")[0], KIND): ServerFacts,
}
