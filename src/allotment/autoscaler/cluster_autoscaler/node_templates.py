"""What a group grows by: which devices its next node will have, and what that node costs.

The devices of a node that is alive are the truth, so they come first; a group of ours that has none has its template.
The price is the group's; of other clouds' groups it is the catalogue's for the type that the node says it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from allotment.autoscaler.cluster_autoscaler.node_groups import LABEL, NodeGroup
from allotment.autoscaler.cluster_autoscaler.option_evaluation import GroupTemplate, renamed
from allotment.autoscaler.readiness import is_ready
from allotment.fleet.catalog import InstanceType
from allotment.fleet.catalog.instance_type import CapacityType
from allotment.model.resource import ResourceSlice
from allotment.model.trees import Tree, read_value

_TYPE: Final = "node.kubernetes.io/instance-type"
#: Nodes that are alike have these in common: type, group, and how their GPUs are cut.
_ALIKE: Final = (_TYPE, LABEL, "nvidia.com/mig.config", "nvidia.com/mig.strategy")
#: How clouds say that a node is spot.
_SPOT: Final[Sequence[tuple[str, str]]] = (
    ("karpenter.sh/capacity-type", "spot"),
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("cloud.google.com/gke-spot", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
)


class GroupTemplates:
    """For one question. ``nodes`` and ``slices``: the cluster's."""

    def __init__(
        self, groups: Iterable[NodeGroup], catalog: Sequence[InstanceType], nodes: Iterable[Tree],
        slices: Iterable[Tree], kube: str,
    ) -> None:  # fmt: skip
        self._groups = {group.id: group for group in groups}
        self._catalog = catalog
        self._kube = kube
        self._alive: dict[tuple[str, ...], str] = {}
        for node in nodes:
            if _labels(node).get(_TYPE) and is_ready(node):
                self._alive.setdefault(_alike(node), node["metadata"]["name"])
        self._slices: dict[str, list[Tree]] = {}
        for one in slices:
            if name := one["spec"].get("nodeName"):
                self._slices.setdefault(name, []).append(one)

    def of(self, group: str, node: Tree) -> GroupTemplate:
        """``node``: as the autoscaler sees the group's next one."""
        ours = self._groups.get(group)
        return GroupTemplate(node, self._published(ours, node), self._price(ours, node))

    def _published(self, group: NodeGroup | None, node: Tree) -> tuple[ResourceSlice, ...] | None:
        name = node["metadata"]["name"]
        alive = self._alive.get(_alike(node), "")
        if published := self._slices.get(alive):
            return renamed((read_value(one, ResourceSlice) for one in published), alive, name)
        return group.template(name, self._kube).slices if group is not None else None

    def _price(self, group: NodeGroup | None, node: Tree) -> Decimal | None:
        if group is not None:
            return group.price
        labels = _labels(node)
        types = [one for one in self._catalog if one.name == labels.get(_TYPE)]
        if len(types) != 1:  # not known; or two clouds have one of that name
            return None
        spot = any(labels.get(label) == value for label, value in _SPOT)
        capacity: CapacityType = "spot" if spot else "on-demand"
        return types[0].price(capacity)


def _labels(node: Tree) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}


def _alike(node: Tree) -> tuple[str, ...]:
    labels = _labels(node)
    return tuple(labels.get(label, "") for label in _ALIKE)
