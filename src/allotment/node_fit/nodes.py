"""The nodes as the scheduler sees them: what each has, and what the pods on it (decided or bound) take of it.

Every change is noted in a journal, from which tables kept per shape learn which nodes to look at again. A node's place
is that of the inventory, so that one bit mask means the same nodes to both.
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
from allotment.node_fit.assigned_pod import Resident
from allotment.node_fit.pod_requirements import HostPort, amount
from allotment.node_fit.topology_counts import Tallies

#: What a cordoned node has; pods that tolerate it may go there all the same.
UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
#: On a node that is cordoned because it is still to get its devices; whoever ordered it ends that.
COMING: Final = "allotment.dev/coming"
#: Taint of a node that is kept for those for whom it was bought, until they are there. Its value is the order.
RESERVED: Final = "allotment.dev/reserved"
#: Pods on a node that does not say how many it takes.
_ANY_NUMBER: Final = 1 << 30


class Machine:
    """One node."""

    __slots__ = (
        "allocatable", "coming", "facts", "free", "name", "place", "pods", "pods_allowed", "ports", "scored_cpu",
        "scored_memory", "taints", "unschedulable",
    )  # fmt: skip

    def __init__(self, name: str, place: int) -> None:
        self.name = name
        self.place = place
        self.facts = NodeFacts(name)
        self.taints: tuple[Taint, ...] = ()
        self.unschedulable = False
        self.coming = False
        self.allocatable: dict[str, int] = {}
        self.free: dict[str, int] = {}
        self.pods_allowed = _ANY_NUMBER
        self.pods: dict[str, Resident] = {}
        self.ports: dict[HostPort, int] = {}
        self.scored_cpu = 0
        self.scored_memory = 0

    def set_allocatable(self, allocatable: dict[str, int]) -> None:
        """What the node has for pods."""
        self.pods_allowed = allocatable.pop("pods", _ANY_NUMBER)
        self.allocatable = allocatable
        self.free = dict(allocatable)
        for pod in self.pods.values():
            for name, n in pod.demand.requests.items():
                self.free[name] = self.free.get(name, 0) - n

    def add(self, pod: Resident) -> None:
        """A pod comes."""
        self.pods[pod.uid] = pod
        free, demand = self.free, pod.demand
        for name, n in demand.requests.items():
            free[name] = free.get(name, 0) - n
        self.scored_cpu += demand.scored_cpu
        self.scored_memory += demand.scored_memory
        for port in demand.ports:
            self.ports[port] = self.ports.get(port, 0) + 1

    def remove(self, uid: str) -> Resident | None:
        """A pod goes; None if it was not here."""
        pod = self.pods.pop(uid, None)
        if pod is None:
            return None
        free, demand = self.free, pod.demand
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


class Machines:
    """All nodes by name and by place, and which pod is where."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.journal = ChangeJournal()
        self.by_name: dict[str, Machine] = {}
        self._by_place: list[Machine | None] = []
        self._where: dict[str, str] = {}
        """Node by pod, also of nodes that are not known (yet)."""
        self._strays: dict[str, dict[str, Resident]] = {}
        self.tallies = Tallies()
        self.neighbourly: dict[str, tuple[Resident, str]] = {}
        """Pods here with affinity of their own, and their nodes: they have a say in where others go."""

    def __len__(self) -> int:
        return len(self.by_name)

    def __iter__(self) -> Iterator[Machine]:
        return iter(self.by_name.values())

    def at(self, place: int) -> Machine | None:
        """The node in a place."""
        return self._by_place[place] if place < len(self._by_place) else None

    @property
    def places(self) -> int:
        """How many places there are."""
        return self.inventory.index_count

    def node_of(self, uid: str) -> str | None:
        """Where a pod is."""
        return self._where.get(uid)

    # --- nodes ---------------------------------------------------------------------------------------------------

    def put(self, tree: Tree) -> None:
        """Add a node or follow its change."""
        metadata, spec, status = tree["metadata"], tree.get("spec") or {}, tree.get("status") or {}
        name = metadata["name"]
        labels = metadata.get("labels") or {}
        known = self.by_name.get(name)
        if known is None or known.facts.labels != labels:
            self.inventory.put_node(name, labels)
        machine = known or self._new(name)
        machine.facts = NodeFacts(name, labels)
        machine.taints = tuple(
            Taint(key=t.get("key", ""), value=t.get("value", ""), effect=t.get("effect", ""))
            for t in spec.get("taints") or ()
        )
        machine.unschedulable = bool(spec.get("unschedulable"))
        machine.coming = (machine.unschedulable and COMING in (metadata.get("annotations") or {})) or any(
            taint.key == RESERVED for taint in machine.taints
        )
        machine.set_allocatable(_read_amounts(status.get("allocatable") or status.get("capacity") or {}))
        self._note(machine)

    def _new(self, name: str) -> Machine:
        machine = self.by_name[name] = Machine(name, self.inventory.index_of(name))
        while len(self._by_place) <= machine.place:
            self._by_place.append(None)
        self._by_place[machine.place] = machine
        for pod in self._strays.pop(name, {}).values():
            machine.add(pod)
        return machine

    def remove(self, name: str) -> None:
        """A node is gone; pods that are bound to it stay known, should it come again."""
        machine = self.by_name.pop(name, None)
        if machine is None:
            return
        self._by_place[machine.place] = None
        if machine.pods:
            self._strays[name] = machine.pods
        self.inventory.remove_node(name)
        self._note(machine)

    # --- pods ----------------------------------------------------------------------------------------------------

    def seat(self, pod: Resident, node: str) -> bool:
        """A pod is on a node, or will be; whether that was news."""
        before = self._where.get(pod.uid)
        machine = self.by_name.get(node)
        if before == node:
            held = (machine.pods if machine is not None else self._strays.get(node, {})).get(pod.uid)
            same = held is not None and held.demand is pod.demand and held.labels == pod.labels
            if same and held is not None and held.terminating == pod.terminating:
                (machine.pods if machine is not None else self._strays[node])[pod.uid] = pod
                return False
        if before is not None:
            self.unseat(pod.uid)
        self._where[pod.uid] = node
        self.tallies.change(pod, node, 1)
        if pod.demand.has_neighbours:
            self.neighbourly[pod.uid] = (pod, node)
        if machine is None:
            self._strays.setdefault(node, {})[pod.uid] = pod
            return True
        machine.add(pod)
        self._note(machine)
        return True

    def unseat(self, uid: str) -> str | None:
        """A pod has left its node, whose name is returned."""
        node = self._where.pop(uid, None)
        if node is None:
            return None
        self.neighbourly.pop(uid, None)
        machine = self.by_name.get(node)
        if machine is None:
            strays = self._strays.get(node, {})
            pod = strays.pop(uid, None)
            if not strays:
                self._strays.pop(node, None)
        else:
            pod = machine.remove(uid)
            self._note(machine)
        if pod is not None:
            self.tallies.change(pod, node, -1)
        return node

    def everyone(self) -> Iterator[tuple[Resident, str]]:
        """All pods with their nodes."""
        for machine in self.by_name.values():
            for pod in machine.pods.values():
                yield pod, machine.name
        for node, pods in self._strays.items():
            for pod in pods.values():
                yield pod, node

    def _note(self, machine: Machine) -> None:
        self.journal.append(machine.place, self.inventory.index_count)


def _read_amounts(tree: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, text in tree.items():
        try:
            quantity = Quantity.parse(text) if isinstance(text, str) else Quantity.of_int(int(text))
        except (QuantityError, TypeError, ValueError):
            continue  # no amount that anybody could use
        found[name] = amount(name, quantity)
    return found
