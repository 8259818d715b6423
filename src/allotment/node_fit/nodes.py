"""Cache of the nodes for scheduling: what each node has, and what its pods (assumed or bound) use of it.

Every change is recorded in a journal, from which the tables for equal pods know which nodes to evaluate again. A node's
index is that of the inventory, so that a bit mask means the same nodes in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from allotment.engine.cluster.inventory import Inventory
from allotment.engine.cluster.journal import ChangeJournal
from allotment.engine.cluster.node_selection import NodeFacts
from allotment.model.core import Taint
from allotment.model.quantity import Quantity, QuantityError
from allotment.model.trees import Tree
from allotment.node_fit.assigned_pod import AssignedPod
from allotment.node_fit.pod_requirements import HostPort, amount
from allotment.node_fit.topology_counts import TopologyCounts

#: The taint of a cordoned node; pods that tolerate it may be placed there.
UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
#: Annotation of a node that is cordoned until it has its devices; the component that ordered the node removes it.
PROVISIONING: Final = "allotment.dev/coming"
#: Taint of a node that is reserved for the pods it was provisioned for, until they are placed. Its value is the order.
RESERVED: Final = "allotment.dev/reserved"
#: Pod limit of a node that does not publish one.
_ANY_NUMBER: Final = 1 << 30


def is_provisioning(node: Tree) -> bool:
    """Return whether an autoscaler has ordered the node and does not allow all pods on it yet."""
    spec, annotations = node.get("spec") or {}, node["metadata"].get("annotations") or {}
    cordoned = bool(spec.get("unschedulable")) and PROVISIONING in annotations
    return cordoned or any(taint.get("key") == RESERVED for taint in spec.get("taints") or ())


class CachedNode:
    """A node: its labels, taints, allocatable and free resources, and its pods."""

    __slots__ = (
        "allocatable", "facts", "free", "index", "is_provisioning", "name", "pods", "pods_allowed", "ports",
        "scored_cpu", "scored_memory", "taints", "unschedulable",
    )  # fmt: skip

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index
        self.facts = NodeFacts(name)
        self.taints: tuple[Taint, ...] = ()
        self.unschedulable = False
        self.is_provisioning = False
        self.allocatable: dict[str, int] = {}
        self.free: dict[str, int] = {}
        self.pods_allowed = _ANY_NUMBER
        self.pods: dict[str, AssignedPod] = {}
        self.ports: dict[HostPort, int] = {}
        self.scored_cpu = 0
        self.scored_memory = 0

    def set_allocatable(self, allocatable: dict[str, int]) -> None:
        """Set the allocatable resources and recompute the free ones."""
        self.pods_allowed = allocatable.pop("pods", _ANY_NUMBER)
        self.allocatable = allocatable
        self.free = dict(allocatable)
        for pod in self.pods.values():
            for name, n in pod.requirements.requests.items():
                self.free[name] = self.free.get(name, 0) - n

    def add(self, pod: AssignedPod) -> None:
        """Add a pod and subtract what it uses."""
        self.pods[pod.uid] = pod
        free, demand = self.free, pod.requirements
        for name, n in demand.requests.items():
            free[name] = free.get(name, 0) - n
        self.scored_cpu += demand.scored_cpu
        self.scored_memory += demand.scored_memory
        for port in demand.ports:
            self.ports[port] = self.ports.get(port, 0) + 1

    def remove(self, uid: str) -> AssignedPod | None:
        """Remove a pod and return it, or None if it was not on this node."""
        pod = self.pods.pop(uid, None)
        if pod is None:
            return None
        free, demand = self.free, pod.requirements
        for name, n in demand.requests.items():
            free[name] = free.get(name, 0) + n
        self.scored_cpu -= demand.scored_cpu
        self.scored_memory -= demand.scored_memory
        for port in demand.ports:
            left = self.ports[port] - 1
            if left:
                self.ports[port] = left
            else:
                del self.ports[port]
        return pod


class NodeCache:
    """All nodes by name and by index, and the node of every pod."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.journal = ChangeJournal()
        self.by_name: dict[str, CachedNode] = {}
        self._by_index: list[CachedNode | None] = []
        self._node_of_pod: dict[str, str] = {}
        """Node name by pod UID, including names of nodes that do not exist (yet)."""
        self._pods_of_missing_nodes: dict[str, dict[str, AssignedPod]] = {}
        self.pod_counts = TopologyCounts()
        self.pods_with_affinity: dict[str, tuple[AssignedPod, str]] = {}
        """Assigned pods with pod affinity or anti-affinity, and their nodes; their terms apply to other pods, too."""

    def __len__(self) -> int:
        return len(self.by_name)

    def __iter__(self) -> Iterator[CachedNode]:
        return iter(self.by_name.values())

    def at(self, index: int) -> CachedNode | None:
        """Return the node with an index, or None."""
        return self._by_index[index] if index < len(self._by_index) else None

    @property
    def index_count(self) -> int:
        """The number of node indexes in use, including gaps of removed nodes."""
        return self.inventory.index_count

    def node_of(self, uid: str) -> str | None:
        """Return the name of the node of a pod, or None."""
        return self._node_of_pod.get(uid)

    # --- nodes ---------------------------------------------------------------------------------------------------

    def put(self, tree: Tree) -> None:
        """Add or update a node."""
        metadata, spec, status = tree["metadata"], tree.get("spec") or {}, tree.get("status") or {}
        name = metadata["name"]
        labels = metadata.get("labels") or {}
        facts = NodeFacts(name, labels, frozenset(status.get("declaredFeatures") or ()))
        known = self.by_name.get(name)
        if known is None or known.facts != facts:
            self.inventory.put_node(name, labels, facts.declared_features)
        node = known or self._add_node(name)
        node.facts = facts
        node.taints = tuple(
            Taint(key=t.get("key", ""), value=t.get("value", ""), effect=t.get("effect", ""))
            for t in spec.get("taints") or ()
        )
        node.unschedulable = bool(spec.get("unschedulable"))
        node.is_provisioning = is_provisioning(tree)
        node.set_allocatable(_read_amounts(status.get("allocatable") or status.get("capacity") or {}))
        self._record_change(node)

    def _add_node(self, name: str) -> CachedNode:
        node = self.by_name[name] = CachedNode(name, self.inventory.index_of(name))
        while len(self._by_index) <= node.index:
            self._by_index.append(None)
        self._by_index[node.index] = node
        for pod in self._pods_of_missing_nodes.pop(name, {}).values():
            node.add(pod)
        return node

    def remove(self, name: str) -> None:
        """Remove a node. Pods that are bound to it stay known, in case it is created again."""
        node = self.by_name.pop(name, None)
        if node is None:
            return
        self._by_index[node.index] = None
        if node.pods:
            self._pods_of_missing_nodes[name] = node.pods
        self.inventory.remove_node(name)
        self._record_change(node)

    # --- pods ----------------------------------------------------------------------------------------------------

    def assign_pod(self, pod: AssignedPod, node_name: str) -> bool:
        """Assign a pod to a node, or update it there; return whether anything relevant changed."""
        before = self._node_of_pod.get(pod.uid)
        node = self.by_name.get(node_name)
        if before == node_name:
            known_pod = (node.pods if node is not None else self._pods_of_missing_nodes.get(node_name, {})).get(pod.uid)
            same = (
                known_pod is not None and known_pod.requirements is pod.requirements and known_pod.labels == pod.labels
            )
            if same and known_pod is not None and known_pod.terminating == pod.terminating:
                (node.pods if node is not None else self._pods_of_missing_nodes[node_name])[pod.uid] = pod
                return False
        if before is not None:
            self.remove_pod(pod.uid)
        self._node_of_pod[pod.uid] = node_name
        self.pod_counts.update(pod, node_name, 1)
        if pod.requirements.has_pod_affinity:
            self.pods_with_affinity[pod.uid] = (pod, node_name)
        if node is None:
            self._pods_of_missing_nodes.setdefault(node_name, {})[pod.uid] = pod
            return True
        node.add(pod)
        self._record_change(node)
        return True

    def remove_pod(self, uid: str) -> str | None:
        """Remove a pod from its node and return the node's name, or None if it had none."""
        node_name = self._node_of_pod.pop(uid, None)
        if node_name is None:
            return None
        self.pods_with_affinity.pop(uid, None)
        node = self.by_name.get(node_name)
        if node is None:
            pods_of_node = self._pods_of_missing_nodes.get(node_name, {})
            pod = pods_of_node.pop(uid, None)
            if not pods_of_node:
                self._pods_of_missing_nodes.pop(node_name, None)
        else:
            pod = node.remove(uid)
            self._record_change(node)
        if pod is not None:
            self.pod_counts.update(pod, node_name, -1)
        return node_name

    def assigned_pods(self) -> Iterator[tuple[AssignedPod, str]]:
        """Yield all pods with the names of their nodes."""
        for node in self.by_name.values():
            for pod in node.pods.values():
                yield pod, node.name
        for node_name, pods in self._pods_of_missing_nodes.items():
            for pod in pods.values():
                yield pod, node_name

    def _record_change(self, node: CachedNode) -> None:
        self.journal.append(node.index, self.inventory.index_count)


def _read_amounts(tree: Mapping[str, Any]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for name, text in tree.items():
        try:
            quantity = Quantity.parse(text) if isinstance(text, str) else Quantity.of_int(int(text))
        except (QuantityError, TypeError, ValueError):
            continue  # not a usable quantity
        amounts[name] = amount(name, quantity)
    return amounts
