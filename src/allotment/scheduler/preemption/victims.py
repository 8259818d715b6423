"""Which pods to send away so that one of higher priority finds room (KEP-268): pure, on the scheduler's own state.

Devices are not freed this way: Kubernetes counts a claim that somebody holds as beyond preemption. What counts is, in
this order: budgets that would be violated, the highest priority sent away, the sum of priorities, how many pods, and
that the first to have begun of those with the highest priority has not long been at work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from allotment.model.trees import Tree, to_value
from allotment.node_fit.assigned_pod import Resident
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.label_selectors import matcher
from allotment.node_fit.nodes import Machine, Machines
from allotment.node_fit.podspec import LabelSelector
from allotment.scheduler.reporting.fit_error import NO_VICTIMS, NOT_HELPFUL, counted

#: Nodes that are tried out at most for one pod.
_MOST_NODES: Final = 100
#: Kubernetes adds this to every priority, so that many small ones weigh more than few.
_OFFSET: Final = 2**31


class Victims(NamedTuple):
    """Pods to send away from a node."""

    node: str
    pods: tuple[Resident, ...]
    violations: int

    def since(self) -> str:
        """When the first of those with the highest priority began."""
        highest = max((p.priority for p in self.pods), default=0)
        return min((p.started for p in self.pods if p.priority == highest), default="")

    def cost(self) -> tuple[int, int, int, int]:
        """The smaller, the better."""
        return (
            self.violations,
            max((p.priority for p in self.pods), default=-_OFFSET),
            sum(p.priority + _OFFSET for p in self.pods),
            len(self.pods),
        )


class Preemption(NamedTuple):
    """The best victims, or why there are none, counted as Kubernetes words it."""

    victims: Victims | None
    reasons: Mapping[str, int]


Refuses = Callable[[Machine], Refusal | None]
"""Whether the pod would do on a node as things are (with pods taken away, say)."""


def choose(
    pod: Resident, refusals: Mapping[int, Refusal], machines: Machines, budgets: Sequence[Tree], refuses: Refuses
) -> Preemption:
    """Try every node on which sending pods away may help, and take the cheapest."""
    texts: list[str] = []
    best: Victims | None = None
    tried = 0
    for place, refusal in refusals.items():
        machine = machines.at(place)
        if machine is None or not refusal.preemption_may_help or tried >= _MOST_NODES:
            texts.append(NOT_HELPFUL)
            continue
        tried += 1
        found = _on_node(pod, machine, machines, budgets, refuses)
        if isinstance(found, Victims):
            if best is None or (found.cost(), best.since()) < (best.cost(), found.since()):
                best = found
        else:
            texts.extend(found)
    return Preemption(best, counted(texts) if best is None else {})


def _on_node(
    pod: Resident, machine: Machine, machines: Machines, budgets: Sequence[Tree], refuses: Refuses
) -> Victims | tuple[str, ...]:
    lower = [other for other in machine.pods.values() if other.priority < pod.priority]
    if not lower:
        return (NO_VICTIMS,)
    # The most important first: it is the first to be spared.
    lower.sort(key=lambda other: (-other.priority, other.started))
    gone: dict[str, Resident] = {}
    try:
        for other in lower:
            machines.unseat(other.uid)
            gone[other.uid] = other
        refusal = refuses(machine)
        if refusal is not None:
            return refusal.texts
        violating = _violating(lower, budgets)
        kept_out: list[Resident] = []
        violations = 0
        for other in (*(o for o in lower if o.uid in violating), *(o for o in lower if o.uid not in violating)):
            machines.seat(other, machine.name)
            del gone[other.uid]
            if refuses(machine) is not None:
                machines.unseat(other.uid)
                gone[other.uid] = other
                kept_out.append(other)
                violations += other.uid in violating
        kept_out.sort(key=lambda other: (-other.priority, other.started))
        return Victims(machine.name, tuple(kept_out), violations)
    finally:
        for other in gone.values():
            machines.seat(other, machine.name)


def _violating(pods: Sequence[Resident], budgets: Sequence[Tree]) -> frozenset[str]:
    """Pods (uids) whose going would violate a PodDisruptionBudget."""
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
                continue  # the API server has counted it already
            left[number] -= 1
            if left[number] < 0:
                found.add(pod.uid)
    return frozenset(found)


def _selector(budget: Tree) -> Callable[[Mapping[str, str]], bool] | None:
    """None for a budget that selects nothing."""
    tree = (budget.get("spec") or {}).get("selector")
    if not tree or not (tree.get("matchLabels") or tree.get("matchExpressions")):
        return None
    return matcher(to_value({k: v for k, v in tree.items() if v is not None}, LabelSelector))
