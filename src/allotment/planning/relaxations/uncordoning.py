"""Cordoned nodes on which pods would fit for which a plan orders machines, or that it does not serve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from allotment.explanation.node_eligibility import UNSCHEDULABLE
from allotment.model.core import Node
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.phrases import counted
from allotment.planning.limits import PlanLimits
from allotment.planning.pending_pods.demand import read_demand
from allotment.planning.planner import plan_demand
from allotment.planning.report import ProvisioningPlan

#: Maximum number of cordoned nodes that are tried; each trial takes as long as reading the cluster.
_MAX_TRIED: Final = 8


class CordonedNode(NamedTuple):
    """A cordoned node, and the pods that would run there if it were not cordoned."""

    node: str
    pods: tuple[ObjectKey, ...]

    @property
    def note(self) -> str:
        """The note of a plan.

        >>> CordonedNode("gpu-2", (ObjectKey("ml", "a"), ObjectKey("ml", "b"))).note
        '2 pods fit on cordoned node gpu-2 without a new machine; if it may be used: kubectl uncordon gpu-2'
        """
        pods = counted(len(self.pods), "pod fits", "pods fit")
        return (
            f"{pods} on cordoned node {self.node} without a new machine; if it may be used: "
            f"kubectl uncordon {self.node}"
        )


def cordoned_nodes_that_fit(
    values: Iterable[Object], plan: ProvisioningPlan, limits: PlanLimits, features: Features
) -> Iterator[CordonedNode]:
    """The cordoned nodes that serve pods of new machines, or unserved pods, each in addition to the ones before.

    Nodes that are being deleted are not considered, nor those that a program keeps away from pods by another taint.
    """
    objects = tuple(values)
    cordoned = [value for value in objects if isinstance(value, Node) and _is_cordoned(value)]
    placed = (placement.pod for machine in plan.machines for placement in machine.placements)
    waiting = {*placed, *(unserved.pod for unserved in plan.unserved)}
    for node in cordoned[:_MAX_TRIED]:
        if not waiting:
            return
        changed = tuple(_uncordoned(value) if value is node else value for value in objects)
        pods = tuple(sorted(waiting.intersection(_placed_on(node.metadata.name, changed, limits, features))))
        if pods:
            yield CordonedNode(node.metadata.name, pods)
            waiting.difference_update(pods)
            objects = changed


def _is_cordoned(node: Node) -> bool:
    return node.spec.unschedulable and node.metadata.deletion_timestamp is None


def _uncordoned(node: Object) -> Object:
    assert isinstance(node, Node)
    taints = tuple(taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE.key)
    return replace(node, spec=replace(node.spec, unschedulable=False, taints=taints))


def _placed_on(node: str, objects: Sequence[Object], limits: PlanLimits, features: Features) -> Iterator[ObjectKey]:
    """The pods that run on a node if no machine is ordered."""
    demand = read_demand(objects, features)
    found = plan_demand(demand, (), limits, keep_going=lambda: False)
    return (placement.pod for placement in found.existing if placement.node == node)
