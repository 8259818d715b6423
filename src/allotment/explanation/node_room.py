"""``NodeRoom``: whether nodes have enough cpu, memory and storage for pods, whatever devices these get.

Devices are free for others if the pod that would get them can run on none of their nodes. Such a shortage is no reason
for a refusal of devices; of the resources that devices use of their node, `NodeAccounts` decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final

from allotment.explanation.input import ExplainInput
from allotment.model.core import Node, Pod, PodSpec
from allotment.model.trees import to_tree
from allotment.node_fit.pod_requirements import PodRequirementsCache, amounts

_ENDED: Final = ("Succeeded", "Failed")
_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")


class NodeRoom:
    """The resources of the nodes of an input, next to the pods that are on them.

    What is used of a node is counted when it is first required. A node without an object, or whose resources are not
    known, has room.
    """

    def __init__(self, input: ExplainInput) -> None:
        self._input = input
        self._demands = PodRequirementsCache()
        #: By the identity of the spec, which is kept: one pod is compared with thousands of nodes.
        self._demand_of: dict[int, tuple[PodSpec, Mapping[str, int]]] = {}
        self._added: dict[str, dict[str, int]] = {}
        self._used: dict[str, dict[str, int]] = {}
        self._amounts: dict[str, Mapping[str, int]] = {}

    def add(self, pod: Pod, node: str, sign: int = 1) -> None:
        """Count a pod that is placed on a node; -1 takes it back."""
        if not pod.spec.node_name:  # otherwise it is counted as a pod of the cluster
            _add(self._added.setdefault(node, {}), self._demand(pod), sign)

    def has_room(self, pod: Pod, node: str, *, is_counted: bool = False) -> bool:
        """Whether a node has enough for a pod. ``is_counted``: the pod was added to the node."""
        allocatable = self._allocatable(node)
        if pod.spec.node_name or not allocatable:
            return True
        demand = self._demand(pod)
        wanted = {name: demand[name] for name in allocatable if demand.get(name, 0)}
        if not wanted:
            return True
        used, added = self._used_on(node), self._added.get(node, {})
        return all(
            used.get(name, 0) + added.get(name, 0) + (0 if is_counted else amount) <= allocatable[name]
            for name, amount in wanted.items()
        )

    def with_room(self, pod: Pod, nodes: Iterable[str]) -> list[str]:
        """The nodes that have enough for a pod."""
        return [node for node in nodes if self.has_room(pod, node)]

    def _demand(self, pod: Pod) -> Mapping[str, int]:
        known = self._demand_of.get(id(pod.spec))
        if known is None:
            known = self._demand_of[id(pod.spec)] = pod.spec, self._demands.of(to_tree(pod.spec)).requests
        return known[1]

    def _allocatable(self, name: str) -> Mapping[str, int]:
        """The known amounts of a node by resource."""
        found = self._amounts.get(name)
        if found is None:
            node = self._nodes.get(name)
            has = amounts(node.status.allocatable or node.status.capacity) if node is not None else {}
            found = self._amounts[name] = {resource: has[resource] for resource in _RESOURCES if resource in has}
        return found

    @cached_property
    def _nodes(self) -> dict[str, Node]:
        return {node.metadata.name: node for node in self._input.nodes}

    @cached_property
    def _on_nodes(self) -> dict[str, list[Pod]]:
        found: dict[str, list[Pod]] = {}
        for pod in (*self._input.pods, *self._input.others):
            if pod.spec.node_name and pod.status.phase not in _ENDED:
                found.setdefault(pod.spec.node_name, []).append(pod)
        return found

    def _used_on(self, node: str) -> dict[str, int]:
        if node not in self._used:
            used = self._used[node] = {}
            for pod in self._on_nodes.get(node, ()):
                _add(used, self._demand(pod), 1)
        return self._used[node]


def _add(used: dict[str, int], demand: Mapping[str, int], sign: int) -> None:
    for name in _RESOURCES:
        if amount := demand.get(name, 0):
            used[name] = used.get(name, 0) + sign * amount
