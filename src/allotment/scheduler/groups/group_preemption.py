"""Preemption for a group (KEP-5710): victims anywhere in the cluster make room for all its pods.

All pods of lower priority are removed first. If the group then fits, as many as possible are kept. As in the preemption
for one pod, no devices are freed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from allotment.cluster.cache import Cache
from allotment.model.features import Features
from allotment.scheduler.attempt import NodeAssignment, SchedulingAlgorithm
from allotment.scheduler.binding.cycle import BindingCycle
from allotment.scheduler.group_hierarchy import Group
from allotment.scheduler.groups import status
from allotment.scheduler.groups.simulation import GroupSimulation, Waiting
from allotment.scheduler.groups.status import Code
from allotment.scheduler.pending_pods import PendingPods
from allotment.scheduler.pods import QueuedPod
from allotment.scheduler.preemption.budgets import DisruptionBudgets
from allotment.scheduler.preemption.eviction import PreemptionEvictor
from allotment.scheduler.preemption.victim_units import Membership, VictimUnit, remove, reprieve, restore, victim_units
from allotment.scheduler.reporting import fit_error


class GroupPreemptionOutcome(NamedTuple):
    """The outcome of a preemption. ``is_final``: it is the only reason that is reported."""

    code: Code
    text: str
    is_final: bool = False


class GroupPreemption:
    """Preempts pods for groups; the pods of the group are nominated to the nodes where they will fit."""

    def __init__(
        self,
        simulation: GroupSimulation,
        algorithm: SchedulingAlgorithm,
        binding: BindingCycle,
        pending_pods: PendingPods,
        evictor: PreemptionEvictor,
        budgets: Cache[Any],
        membership: Membership,
        features: Features,
    ) -> None:
        self._simulation = simulation
        self._algorithm = algorithm
        self._machines = algorithm.machines
        self._binding = binding
        self._pending_pods = pending_pods
        self._evictor = evictor
        self._budgets = budgets
        self._membership = membership
        self._groups_have_policy = features.enabled("PodGroupPreemptionPolicy")

    def preempt(self, root: Group, waiting: Waiting) -> GroupPreemptionOutcome:
        """Evict pods of lower priority so that the group fits."""
        pods = [pod for group in waiting.values() for pod in group]
        policies = [str(pod.tree["spec"].get("preemptionPolicy") or "") for pod in pods]
        if root.preemption_policy == "Never" if self._groups_have_policy else "Never" in policies:
            return GroupPreemptionOutcome(Code.UNSCHEDULABLE, fit_error.NEVER_PREEMPTS)
        if self._is_ongoing(root, pods):
            return GroupPreemptionOutcome(Code.SUCCESS, status.ONGOING, is_final=True)
        self._forget_nominations(pods)
        units = victim_units(self._machines, self._membership)
        units = [unit for unit in units if unit.priority < root.priority]
        if not units:
            return GroupPreemptionOutcome(Code.UNSCHEDULABLE, status.NO_VICTIMS, is_final=True)
        remove(units, self._machines)
        victims = units
        try:
            results = self._simulation.run(root, waiting)
            found = results[root.key].status
            if not found.ok:
                return GroupPreemptionOutcome(found.code, found.message)
            chosen = [
                (pod.pod, pod.outcome) for result in results.values() if result.status.ok for pod in result.pods
                if isinstance(pod.outcome, NodeAssignment)
            ]  # fmt: skip
            budgets = DisruptionBudgets([item.tree for item in self._budgets.items()])
            victims, _ = reprieve(units, self._machines, budgets, lambda: self._fits(chosen))
        finally:
            restore(victims, self._machines)
        self._evict(root, chosen, victims)
        count = sum(len(unit.pods) for unit in victims)
        return GroupPreemptionOutcome(
            Code.SUCCESS, f"found a placement for podgroup, preempting {count} victims", is_final=True
        )

    def _fits(self, chosen: list[tuple[QueuedPod, NodeAssignment]]) -> bool:
        """Whether all pods fit on their nodes, one after the other."""
        booked: list[tuple[QueuedPod, NodeAssignment]] = []
        try:
            for pod, decided in chosen:
                machine = self._machines.by_name[decided.node]
                again = self._simulation.attempt(pod, 1 << machine.index).outcome
                if not isinstance(again, NodeAssignment):
                    return False
                self._binding.assume(pod, again)
                booked.append((pod, again))
            return True
        finally:
            for pod, decided in reversed(booked):
                self._binding.forget(pod, decided)

    def _evict(
        self, root: Group, chosen: list[tuple[QueuedPod, NodeAssignment]], victims: Iterable[VictimUnit]
    ) -> None:
        for pod, decided in chosen:
            self._algorithm.nominations[pod.uid] = (pod, decided.node)
        uid = str(root.tree["metadata"].get("uid") or "")
        for unit in victims:
            for victim, _ in unit.pods:
                sent = self._evictor.preempt(victim, uid, "cluster", root.key.level)
                self._pending_pods.start_or_retry(chosen[0][0], sent, f"preempt pod {victim.namespace}/{victim.name}")

    def _is_ongoing(self, root: Group, pods: list[QueuedPod]) -> bool:
        """Whether victims of an earlier attempt are still terminating on the nominated nodes of the pods."""
        nodes = {self._algorithm.nominations.get(pod.uid, (pod, pod.nominated_node))[1] for pod in pods}
        machines = [machine for node in nodes if (machine := self._machines.by_name.get(node)) is not None]
        return any(
            pod.terminating and pod.preempted and self._membership(pod).priority < root.priority
            for machine in machines
            for pod in machine.pods.values()
        )

    def _forget_nominations(self, pods: list[QueuedPod]) -> None:
        for pod in pods:
            self._algorithm.nominations.pop(pod.uid, None)
