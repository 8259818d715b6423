"""Selects the victims of preemption (KEP-268) on the scheduler's own state, without side effects.

Preemption does not free devices: Kubernetes excludes claims in use. Nodes are compared, in this order, by violated
disruption budgets, highest priority among the victims, sum of priorities, number of victims, and how recently the
oldest victim of the highest priority started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from allotment.node_fit.assigned_pod import AssignedPod
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.nodes import CachedNode, NodeCache
from allotment.scheduler.preemption.budgets import DisruptionBudgets
from allotment.scheduler.preemption.victim_units import (
    Membership,
    VictimUnit,
    remove,
    reprieve,
    restore,
    victim_units,
    without_groups,
)
from allotment.scheduler.reporting.fit_error import NO_VICTIMS, NOT_HELPFUL, count_texts

#: Maximum number of nodes tried for one pod.
_MAX_NODES: Final = 100
#: Kubernetes adds this to every priority, so that many victims of low priority cost more than a few.
_OFFSET: Final = 2**31


class Victims(NamedTuple):
    """Pods to evict from a node."""

    node: str
    pods: tuple[AssignedPod, ...]
    violations: int

    def earliest_start(self) -> str:
        """Return the start time of the oldest victim of the highest priority."""
        highest = max((p.priority for p in self.pods), default=0)
        return min((p.started for p in self.pods if p.priority == highest), default="")

    def cost(self) -> tuple[int, int, int, int]:
        """Return the cost of these victims; smaller is better."""
        return (
            self.violations,
            max((p.priority for p in self.pods), default=-_OFFSET),
            sum(p.priority + _OFFSET for p in self.pods),
            len(self.pods),
        )


class Preemption(NamedTuple):
    """The best victims, or the reasons why there are none, counted by Kubernetes' texts."""

    victims: Victims | None
    reasons: Mapping[str, int]


UnitsOn = Callable[[CachedNode], Sequence[VictimUnit]]
"""Returns the units that have a pod on a node, the most important first."""
RefusalCheck = Callable[[CachedNode], Refusal | None]
"""Returns why the pod does not fit on a node in its current (possibly simulated) state, or None."""


def select_victims(
    pod: AssignedPod,
    refusals: Mapping[int, Refusal],
    machines: NodeCache,
    budgets: DisruptionBudgets,
    refuses: RefusalCheck,
    membership: Membership = without_groups,
) -> Preemption:
    """Try every node on which preemption may help; return the victims with the lowest cost."""
    units_on = _units_by_node(machines, membership)
    texts: list[str] = []
    best: Victims | None = None
    tried = 0
    for place, refusal in refusals.items():
        machine = machines.at(place)
        if machine is None or not refusal.preemption_may_help or tried >= _MAX_NODES:
            texts.append(NOT_HELPFUL)
            continue
        tried += 1
        found = _on_node(pod, machine, machines, budgets, refuses, units_on)
        if isinstance(found, Victims):
            if best is None or (found.cost(), best.earliest_start()) < (best.cost(), found.earliest_start()):
                best = found
        else:
            texts.extend(found)
    return Preemption(best, count_texts(texts) if best is None else {})


def _units_by_node(machines: NodeCache, membership: Membership) -> UnitsOn:
    """Return the units of a node; those of groups have pods on other nodes, too."""
    if membership is without_groups:
        return lambda machine: victim_units((machine,), membership)
    on_node: dict[str, list[VictimUnit]] = {}
    for unit in victim_units(machines, membership):
        for node in dict.fromkeys(node for _, node in unit.pods):
            on_node.setdefault(node, []).append(unit)
    return lambda machine: on_node.get(machine.name, [])


def _on_node(
    pod: AssignedPod, machine: CachedNode, machines: NodeCache, budgets: DisruptionBudgets, refuses: RefusalCheck,
    units_on: UnitsOn,
) -> Victims | tuple[str, ...]:  # fmt: skip
    lower = [unit for unit in units_on(machine) if unit.priority < pod.priority]
    if not lower:
        return (NO_VICTIMS,)
    remaining = lower
    remove(lower, machines)
    try:
        refusal = refuses(machine)
        if refusal is not None:
            return refusal.texts
        remaining, violations = reprieve(lower, machines, budgets, lambda: refuses(machine) is None)
    finally:
        restore(remaining, machines)
    return Victims(machine.name, tuple(victim for unit in remaining for victim, _ in unit.pods), violations)
