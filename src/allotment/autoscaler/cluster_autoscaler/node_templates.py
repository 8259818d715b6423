"""Templates of node groups: the devices and the price of their next node.

The slices of an existing ready node are preferred; an Allotment group without one uses its template. The price is the
group's; for groups of other clouds, it is the catalog price of the node's instance type.
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
#: Labels that equivalent nodes share: type, group, and MIG configuration.
_EQUIVALENCE_LABELS: Final = (_TYPE, LABEL, "nvidia.com/mig.config", "nvidia.com/mig.strategy")
#: Labels of spot nodes.
_SPOT: Final[Sequence[tuple[str, str]]] = (
    ("karpenter.sh/capacity-type", "spot"),
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("cloud.google.com/gke-spot", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
)


class GroupTemplates:
    """The templates for one request. ``nodes`` and ``slices``: of the cluster."""

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
                self._alive.setdefault(_equivalence_key(node), node["metadata"]["name"])
        self._slices: dict[str, list[Tree]] = {}
        for slice_ in slices:
            if name := slice_["spec"].get("nodeName"):
                self._slices.setdefault(name, []).append(slice_)

    def of(self, group: str, node: Tree) -> GroupTemplate:
        """The template of a group. ``node``: the autoscaler's template node."""
        own_group = self._groups.get(group)
        return GroupTemplate(node, self._published(own_group, node), self._price(own_group, node))

    def _published(self, group: NodeGroup | None, node: Tree) -> tuple[ResourceSlice, ...] | None:
        name = node["metadata"]["name"]
        alive = self._alive.get(_equivalence_key(node), "")
        if published := self._slices.get(alive):
            return renamed((read_value(slice_, ResourceSlice) for slice_ in published), alive, name)
        return group.template(name, self._kube).slices if group is not None else None

    def _price(self, group: NodeGroup | None, node: Tree) -> Decimal | None:
        if group is not None:
            return group.price
        labels = _labels(node)
        types = [instance for instance in self._catalog if instance.name == labels.get(_TYPE)]
        if len(types) != 1:  # unknown, or ambiguous between clouds
            return None
        spot = any(labels.get(label) == value for label, value in _SPOT)
        capacity: CapacityType = "spot" if spot else "on-demand"
        return types[0].price(capacity)


def _labels(node: Tree) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}


def _equivalence_key(node: Tree) -> tuple[str, ...]:
    labels = _labels(node)
    return tuple(labels.get(label, "") for label in _EQUIVALENCE_LABELS)
