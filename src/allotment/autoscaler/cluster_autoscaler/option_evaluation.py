"""Evaluation of expansion options: adds their nodes to a simulated cluster and schedules the pods on them.

cluster-autoscaler simulates options with the devices of an existing node, but compares them by CPU and memory only.
Here the engine allocates the claims, and options are compared by the price per scheduled pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from msgspec.structs import replace

from allotment.externalgrpc.expander import ExpansionOption
from allotment.model.core import HOSTNAME_LABEL
from allotment.model.meta import ObjectMeta
from allotment.model.resource import ResourceSlice
from allotment.model.trees import Tree
from allotment.packing.problem import KeepGoing
from allotment.phrases import counted
from allotment.planning.consolidation.rescheduling import SimulatedCluster, Unschedulable


class GroupTemplate(NamedTuple):
    """The template of a group. ``slices``: those of each new node, None if unknown. ``price``: USD per hour of one
    node, None if unknown."""

    node: Tree
    slices: tuple[ResourceSlice, ...] | None
    price: Decimal | None


class EvaluatedOption(NamedTuple):
    """``served``: pods of the option that fit on its nodes; None: not determined.

    ``cost``: of all its nodes, USD per hour. ``why``: the reason of the first pod that is not served.
    """

    group: str
    nodes: int
    pods: int
    served: int | None
    cost: Decimal | None
    why: str = ""

    @property
    def each(self) -> Decimal | None:
        """The cost per pod served."""
        return self.cost / self.served if self.cost is not None and self.served else None

    def __str__(self) -> str:
        count = counted(self.nodes, "node")
        if self.served is None:
            return f"{self.group}: {count}, not evaluated: {self.why}"
        price = "at an unknown price"
        if self.cost is not None:
            each = f", {self.each:.4f} per pod" if self.each is not None else ""
            price = f"for {self.cost} USD/h{each}"
        verb = "serves" if self.nodes == 1 else "serve"
        rest = f"; {self.why}" if self.why else ""
        return f"{self.group}: {count} {verb} {self.served} of {self.pods} pods {price}{rest}"


def evaluate(
    simulation: SimulatedCluster, option: ExpansionOption, growth: GroupTemplate, keep_going: KeepGoing
) -> EvaluatedOption:
    """Evaluate an option; the simulation is unchanged afterwards."""
    cost = growth.price * option.nodes if growth.price is not None else None
    uids = dict.fromkeys(uid_of(pod) for pod in option.pods)

    def result(served: int | None, why: str = "") -> EvaluatedOption:
        return EvaluatedOption(option.group, option.nodes, len(uids), served, cost, why)

    if growth.slices is None and any(_takes_devices(pod) for pod in option.pods):
        return result(None, "the devices of its nodes are unknown")
    pods = [simulation.pods[uid] for uid in uids if uid in simulation.pods]
    if len(pods) < len(uids) or not pods:
        return result(None, "its pods are unknown")
    mark = simulation.mark()
    try:
        # All nodes at the same time, as in the scheduler, which spreads pods over empty nodes.
        places = 0
        for number in range(option.nodes):
            if not keep_going():
                return result(None, "out of time")
            node, slices = _copy(growth, number)
            simulation.add_node(node, slices)
            places |= 1 << simulation.machines.by_name[node["metadata"]["name"]].index
        served, why = 0, ""
        for pod in sorted(pods, key=lambda pod: pod.order):
            if not keep_going():
                return result(None, "out of time")
            place = simulation.place(pod, places)
            if isinstance(place, Unschedulable):
                why = why or f"{pod.key}: {place.text}"
            else:
                served += 1
        return result(served, why)
    finally:
        simulation.undo_to(mark)


def evaluate_all(
    simulation: SimulatedCluster, growths: Sequence[tuple[ExpansionOption, GroupTemplate]], keep_going: KeepGoing
) -> Iterator[EvaluatedOption]:
    """Evaluate options by ascending lower bound of the cost per pod; skip those that can no longer be the best."""
    least: Decimal | None = None
    for option, growth in sorted(growths, key=lambda pair: _lower_bound(*pair)):
        bound = _lower_bound(option, growth)
        if least is not None and bound > least:
            why = f"even if it served all pods, each would cost {bound:.4f} USD/h"
            known = growth.price is not None
            yield EvaluatedOption(
                option.group, option.nodes, len(option.pods), None, None, why if known else "its price is unknown"
            )
            continue
        found = evaluate(simulation, option, growth, keep_going)
        if found.each is not None:
            least = found.each if least is None else min(least, found.each)
        yield found


def _lower_bound(option: ExpansionOption, growth: GroupTemplate) -> Decimal:
    """The cost per pod if all pods of the option were served."""
    if growth.price is None or not option.pods:
        return Decimal("Infinity")
    return growth.price * option.nodes / len(option.pods)


def best(options: Sequence[EvaluatedOption]) -> tuple[str, ...]:
    """The best groups: the least cost per pod served; of equals, those that serve most pods.

    Without known prices, all options that serve pods; without these, the undetermined ones. Empty if no option helps.
    """
    serving = [option for option in options if option.served]
    priced = [(each, -(option.served or 0), option.group) for option in serving if (each := option.each) is not None]
    if priced:
        least = min(priced)[:2]
        return tuple(group for *found, group in priced if tuple(found) == least)
    return tuple(option.group for option in serving) or tuple(
        option.group for option in options if option.served is None
    )


def uid_of(pod: Tree) -> str:
    """The uid of a pod, or a key from its name if it has none."""
    metadata = pod["metadata"]
    name = "/".join(filter(None, (metadata.get("namespace", ""), metadata.get("name", ""))))
    return str(metadata.get("uid") or f"pod:{name}")


def renamed(slices: Iterable[ResourceSlice], old: str, new: str) -> tuple[ResourceSlice, ...]:
    """Copies of the slices of one node for another."""
    found = []
    for number, slice_ in enumerate(slices):
        pool = slice_.spec.pool
        name = new if pool.name == old else f"{pool.name}-{new}"
        spec = replace(slice_.spec, node_name=new, pool=replace(pool, name=name))
        found.append(replace(slice_, metadata=ObjectMeta(name=f"{new}-{number}"), spec=spec))
    return tuple(found)


def _takes_devices(pod: Tree) -> bool:
    """Whether a pod has claims, or requests extended resources that a DeviceClass may serve."""
    spec = pod.get("spec") or {}
    if spec.get("resourceClaims"):
        return True
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    return any(
        "/" in name for container in containers for name in (container.get("resources") or {}).get("requests") or {}
    )


def _copy(growth: GroupTemplate, number: int) -> tuple[Tree, tuple[ResourceSlice, ...]]:
    """A node of the option with a unique name."""
    metadata = growth.node["metadata"]
    name = f"{metadata['name']}-{number}"
    labels = {**(metadata.get("labels") or {}), HOSTNAME_LABEL: name}
    node = {**growth.node, "metadata": {**metadata, "name": name, "labels": labels}}
    return node, renamed(growth.slices or (), metadata["name"], name)
