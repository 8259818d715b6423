"""The interface (Protocol) and values of the external cloud provider that cluster-autoscaler calls.

Kubernetes objects are JSON trees. Sizes count machines, prices are US dollars, times are nanoseconds, as in Go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from allotment.model.trees import Tree

#: With "unspecified", the autoscaler considers only the cluster's nodes.
InstanceState: TypeAlias = Literal["unspecified", "running", "creating", "deleting"]


class CloudNodeGroup(NamedTuple):
    """A node group: equal machines with a variable count. ``debug`` is written to the autoscaler's log."""

    id: str
    min_size: int
    max_size: int
    debug: str = ""


class NodeRef(NamedTuple):
    """The part of a node that the autoscaler sends. If the node does not exist yet, ``name`` is the instance ID."""

    provider_id: str
    name: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class InstanceError(NamedTuple):
    """The reason why a machine cannot be created. ``out_of_resources``: the cloud has no capacity for it."""

    code: str
    message: str
    out_of_resources: bool = False


class CloudInstance(NamedTuple):
    """A machine of a group. ``id``: the providerID that its node has or will have."""

    id: str
    state: InstanceState = "unspecified"
    error: InstanceError | None = None


class NodeGroupOptions(NamedTuple):
    """Scaling options of a node group. Utilizations are fractions, times are nanoseconds or None."""

    scale_down_utilization: float = 0.0
    scale_down_gpu_utilization: float = 0.0
    zero_or_max: bool = False
    ignore_daemon_sets: bool = False
    unneeded: int | None = None
    unready: int | None = None
    provisioning: int | None = None


class TemplateNode(NamedTuple):
    """The template of a group's next node, and the ResourceSlices that its drivers will publish."""

    node: Tree
    slices: tuple[Tree, ...] = ()


class CloudProvider(Protocol):
    """A cloud provider. Every call may raise `errors.CallError`; the autoscaler's timeout is five seconds."""

    async def node_groups(self) -> Sequence[CloudNodeGroup]: ...

    async def node_group_of(self, node: NodeRef) -> CloudNodeGroup | None:
        """Return the group of a node, or None if the autoscaler must ignore the node."""
        ...

    async def node_price(self, node: NodeRef, hours: float) -> float:
        """Return the price of a node for a number of hours."""
        ...

    async def pod_price(self, pod: Tree, hours: float) -> float:
        """Return the price of a pod for a number of hours, on a machine of exactly its size."""
        ...

    async def gpu_label(self) -> str:
        """Return the label of nodes whose GPUs are an extended resource."""
        ...

    async def gpu_types(self) -> Sequence[str]:
        """Return the possible values of the GPU label."""
        ...

    async def refresh(self) -> None:
        """Start a new round of the autoscaler."""
        ...

    async def cleanup(self) -> None:
        """Release resources before the autoscaler exits."""
        ...

    async def target_size(self, group: str) -> int:
        """Return the desired number of machines, including those that are being created."""
        ...

    async def increase_size(self, group: str, delta: int) -> None:
        """Order ``delta`` more machines, at least one."""
        ...

    async def delete_nodes(self, group: str, nodes: Sequence[NodeRef]) -> None:
        """Delete the machines of these nodes."""
        ...

    async def decrease_target_size(self, group: str, delta: int) -> None:
        """Cancel ``delta`` orders; existing nodes stay."""
        ...

    async def instances(self, group: str) -> Sequence[CloudInstance]: ...

    async def template_node(self, group: str) -> TemplateNode: ...

    async def options(self, group: str, defaults: NodeGroupOptions) -> NodeGroupOptions | None:
        """Return the scaling options of the group, or None for the defaults."""
        ...
