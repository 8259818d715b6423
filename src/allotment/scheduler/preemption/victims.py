"""Selects the victims of preemption (KEP-268) on the scheduler's own state, without side effects.

Preemption does not free devices: Kubernetes excludes claims in use. Nodes are compared, in this order, by violated
disruption budgets, highest priority among the victims, sum of priorities, number of victims, and how recently the
oldest victim of the highest priority started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from allotment.model.core import LabelSelector
from allotment.model.trees import Tree, to_value
from allotment.node_fit.assigned_pod import AssignedPod
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.label_selectors import matcher
from allotment.node_fit.nodes import CachedNode, NodeCache
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


RefusalCheck = Callable[[CachedNode], Refusal | None]
"""Returns why the pod does not fit on a node in its current (possibly simulated) state, or None."""


def select_victims(
    pod: AssignedPod,
    refusals: Mapping[int, Refusal],
    machines: NodeCache,
    budgets: Sequence[Tree],
    refuses: RefusalCheck,
) -> Preemption:
    """Try every node on which preemption may help; return the victims with the lowest cost."""
    texts: list[str] = []
    best: Victims | None = None
    tried = 0
    for place, refusal in refusals.items():
        machine = machines.at(place)
        if machine is None or not refusal.preemption_may_help or tried >= _MAX_NODES:
            texts.append(NOT_HELPFUL)
            continue
        tried += 1
        found = _on_node(pod, machine, machines, budgets, refuses)
        if isinstance(found, Victims):
            if best is None or (found.cost(), best.earliest_start()) < (best.cost(), found.earliest_start()):
                best = found
        else:
            texts.extend(found)
    return Preemption(best, count_texts(texts) if best is None else {})


def _on_node(
    pod: AssignedPod, machine: CachedNode, machines: NodeCache, budgets: Sequence[Tree], refuses: RefusalCheck
) -> Victims | tuple[str, ...]:
    lower = [other for other in machine.pods.values() if other.priority < pod.priority]
    if not lower:
        return (NO_VICTIMS,)
    # Most important first: these are reprieved first.
    lower.sort(key=lambda other: (-other.priority, other.started))
    gone: dict[str, AssignedPod] = {}
    try:
        for other in lower:
            machines.remove_pod(other.uid)
            gone[other.uid] = other
        refusal = refuses(machine)
        if refusal is not None:
            return refusal.texts
        violating = _violating(lower, budgets)
        evicted: list[AssignedPod] = []
        violations = 0
        for other in (*(o for o in lower if o.uid in violating), *(o for o in lower if o.uid not in violating)):
            machines.assign_pod(other, machine.name)
            del gone[other.uid]
            if refuses(machine) is not None:
                machines.remove_pod(other.uid)
                gone[other.uid] = other
                evicted.append(other)
                violations += other.uid in violating
        evicted.sort(key=lambda other: (-other.priority, other.started))
        return Victims(machine.name, tuple(evicted), violations)
    finally:
        for other in gone.values():
            machines.assign_pod(other, machine.name)


def _violating(pods: Sequence[AssignedPod], budgets: Sequence[Tree]) -> frozenset[str]:
    """Return the uids of pods whose eviction would violate a PodDisruptionBudget."""
    left = [int((b.get("status") or {}).get("disruptionsAllowed") or 0) for b in budgets]
    selectors = [_selector(b) for b in budgets]
    found: set[str] = set()
    for pod in pods:
        for number, budget in enumerate(budgets):
            matches = selectors[number]
            if matches is None or budget["metadata"].get("namespace", "") != pod.namespace:
                continue
            if not pod.labels or not matches(pod.labels):
                continue
            if pod.name in ((budget.get("status") or {}).get("disruptedPods") or {}):
                continue  # already counted by the API server
            left[number] -= 1
            if left[number] < 0:
                found.add(pod.uid)
    return frozenset(found)


def _selector(budget: Tree) -> Callable[[Mapping[str, str]], bool] | None:
    """Return the budget's matcher, or None if the budget selects nothing."""
    tree = (budget.get("spec") or {}).get("selector")
    if not tree or not (tree.get("matchLabels") or tree.get("matchExpressions")):
        return None
    return matcher(to_value({k: v for k, v in tree.items() if v is not None}, LabelSelector))
