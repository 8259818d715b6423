"""Pods that preemption evicts together: single pods, or all pods of a group with disruption mode ``all`` (KEP-5710)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from allotment.node_fit.assigned_pod import AssignedPod
from allotment.node_fit.nodes import CachedNode, NodeCache
from allotment.scheduler.group_key import GroupKey
from allotment.scheduler.preemption.budgets import DisruptionBudgets

#: Importance among units of equal priority.
_RANKS: Final[Mapping[str, int]] = {"compositepodgroup": 3, "podgroup": 2, "pod": 1}


class VictimUnit(NamedTuple):
    """Pods that are evicted together, with their nodes."""

    pods: tuple[tuple[AssignedPod, str], ...]
    priority: int
    level: str
    """``pod``, ``podgroup`` or ``compositepodgroup``."""

    @property
    def started(self) -> str:
        return min(pod.started for pod, _ in self.pods)


class GroupMembership(NamedTuple):
    """The groups of an assigned pod, as far as preemption depends on them."""

    disrupted_with: GroupKey | None
    """The highest group whose pods are evicted together."""
    priority: int
    """The priority of the root of its hierarchy."""
    is_member: bool


Membership = Callable[[AssignedPod], GroupMembership]


def without_groups(pod: AssignedPod) -> GroupMembership:
    """Return the membership of a pod if groups are ignored."""
    return GroupMembership(None, pod.priority, False)


def victim_units(machines: Iterable[CachedNode], membership: Membership) -> list[VictimUnit]:
    """Return the pods on some nodes in units that are evicted together; the most important first."""
    together: dict[GroupKey, list[tuple[AssignedPod, str]]] = {}
    priorities: dict[GroupKey, int] = {}
    units: list[VictimUnit] = []
    for machine in machines:
        for pod in machine.pods.values():
            of = membership(pod)
            if of.disrupted_with is not None:
                together.setdefault(of.disrupted_with, []).append((pod, machine.name))
                priorities.setdefault(of.disrupted_with, of.priority)
            else:
                level = "podgroup" if of.is_member else "pod"
                units.append(VictimUnit(((pod, machine.name),), of.priority, level))
    units += [VictimUnit(tuple(pods), priorities[key], key.level) for key, pods in together.items()]
    return sorted(units, key=lambda unit: (-unit.priority, -_RANKS[unit.level], -len(unit.pods), unit.started))


def remove(units: Iterable[VictimUnit], machines: NodeCache) -> None:
    """Remove the pods of units from their nodes, in the scheduler's state only."""
    for unit in units:
        for pod, _ in unit.pods:
            machines.remove_pod(pod.uid)


def restore(units: Iterable[VictimUnit], machines: NodeCache) -> None:
    """Put the pods of units back on their nodes."""
    for unit in units:
        for pod, node in unit.pods:
            machines.assign_pod(pod, node)


class Reprieved(NamedTuple):
    """The units that must be evicted, and how many of their pods a PodDisruptionBudget protects."""

    victims: list[VictimUnit]
    violations: int


def reprieve(
    removed: Sequence[VictimUnit], machines: NodeCache, budgets: DisruptionBudgets, fits: Callable[[], bool]
) -> Reprieved:
    """Restore every unit with which the preemptor still fits; the others remain removed and are returned.

    ``removed``: the most important first. Units whose eviction would violate a budget are tried before all others.
    """
    violating = budgets.violating_pods([pod for unit in removed for pod, _ in unit.pods])
    evicted: set[int] = set()
    violations = 0
    for unit in sorted(removed, key=lambda unit: all(pod.uid not in violating for pod, _ in unit.pods)):
        restore((unit,), machines)
        if not fits():
            remove((unit,), machines)
            evicted.add(id(unit))
            violations += sum(pod.uid in violating for pod, _ in unit.pods)
    return Reprieved([unit for unit in removed if id(unit) in evicted], violations)
