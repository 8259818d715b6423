"""What cluster-autoscaler asks of a cloud and what it is answered, as values.

Objects of Kubernetes are JSON trees. Sizes count machines, prices are US dollars, times are nanoseconds, as in Go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from allotment.model.trees import Tree

#: unspecified: nobody knows; the autoscaler then goes by the cluster's nodes alone.
InstanceState: TypeAlias = Literal["unspecified", "running", "creating", "deleting"]


class CloudNodeGroup(NamedTuple):
    """Machines that are alike and grow and shrink by number. ``debug``: for the autoscaler's log."""

    id: str
    min_size: int
    max_size: int
    debug: str = ""


class NodeRef(NamedTuple):
    """What the autoscaler shows of a node. A node that never came is named by its instance's id."""

    provider_id: str
    name: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class InstanceError(NamedTuple):
    """Why a machine will not come. ``out_of_resources``: because the cloud has no more of them."""

    code: str
    message: str
    out_of_resources: bool = False


class CloudInstance(NamedTuple):
    """A machine of a group. ``id``: the providerID that its node has, or will have."""

    id: str
    state: InstanceState = "unspecified"
    error: InstanceError | None = None


class NodeGroupOptions(NamedTuple):
    """How a group is treated; utilizations are fractions, times nanoseconds or None."""

    scale_down_utilization: float = 0.0
    scale_down_gpu_utilization: float = 0.0
    zero_or_max: bool = False
    ignore_daemon_sets: bool = False
    unneeded: int | None = None
    unready: int | None = None
    provisioning: int | None = None


class TemplateNode(NamedTuple):
    """The next node of a group, which is not there yet, and the ResourceSlices that its drivers will publish."""

    node: Tree
    slices: tuple[Tree, ...] = ()


class CloudProvider(Protocol):
    """A cloud. Every call may raise `failures.CallFailed`; the autoscaler waits five seconds for an answer."""

    async def node_groups(self) -> Sequence[CloudNodeGroup]:
        """All groups."""
        ...

    async def node_group_of(self, node: NodeRef) -> CloudNodeGroup | None:
        """The group of a node; None for a node that is none of ours."""
        ...

    async def node_price(self, node: NodeRef, hours: float) -> float:
        """What a node costs for so long."""
        ...

    async def pod_price(self, pod: Tree, hours: float) -> float:
        """What a pod would cost for so long on a machine of just its size."""
        ...

    async def gpu_label(self) -> str:
        """The label of nodes whose GPUs are an extended resource."""
        ...

    async def gpu_types(self) -> Sequence[str]:
        """The values that this label may have."""
        ...

    async def refresh(self) -> None:
        """Another round begins."""
        ...

    async def cleanup(self) -> None:
        """The autoscaler ends."""
        ...

    async def target_size(self, group: str) -> int:
        """Machines that the group is meant to have, those under way included."""
        ...

    async def increase_size(self, group: str, by: int) -> None:
        """Order machines, one or more."""
        ...

    async def delete_nodes(self, group: str, nodes: Sequence[NodeRef]) -> None:
        """Give machines back."""
        ...

    async def decrease_target_size(self, group: str, by: int) -> None:
        """Take back so many orders; nodes that are there stay."""
        ...

    async def instances(self, group: str) -> Sequence[CloudInstance]:
        """The machines of a group."""
        ...

    async def template_node(self, group: str) -> TemplateNode:
        """The group's next node."""
        ...

    async def options(self, group: str, defaults: NodeGroupOptions) -> NodeGroupOptions | None:
        """How the group is treated; None: as all others."""
        ...
