"""Simulates the scheduling of a group: its pods one after the other, each as if those before it were placed.

Nothing is written, and at the end all bookings are reverted; the caller repeats those of a successful result. As in
Kubernetes, pods are tried in the order of the queue, without backtracking over earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from allotment.model.features import Features
from allotment.scheduler.attempt import AttemptFailed, NodeAssignment, NoNode, Outcome, SchedulingAlgorithm
from allotment.scheduler.binding.cycle import BindingCycle
from allotment.scheduler.claim_ledger import CachedClaim, ClaimLedger
from allotment.scheduler.group_hierarchy import Group, GroupHierarchy
from allotment.scheduler.group_key import GroupKey
from allotment.scheduler.groups import placements, status
from allotment.scheduler.groups.status import Code, GroupStatus
from allotment.scheduler.pods import HoldReason, QueuedPod

ClaimsOf = Callable[[QueuedPod], list[CachedClaim] | HoldReason]

_ALL_NODES: Final = -1


@dataclass(slots=True)
class PodResult:
    """The outcome of the attempt for one pod; without ``outcome`` it was not tried, and ``status`` says why."""

    pod: QueuedPod
    claims: list[CachedClaim] = field(default_factory=list)
    outcome: Outcome | None = None
    status: GroupStatus | None = None

    @property
    def fits(self) -> bool:
        return isinstance(self.outcome, NodeAssignment)


@dataclass(slots=True)
class GroupResult:
    """The outcome for a group; only a PodGroup has pods."""

    group: Group
    status: GroupStatus
    pods: list[PodResult] = field(default_factory=list)
    any_scheduled: bool = False
    waits_for_preemption: bool = False


Results = dict[GroupKey, GroupResult]
Waiting = Mapping[GroupKey, Sequence[QueuedPod]]
"""The pods to schedule, by PodGroup."""
_Booked = list[tuple[QueuedPod, NodeAssignment]]


class GroupSimulation:
    """Runs group attempts on the scheduler's own state."""

    def __init__(
        self, algorithm: SchedulingAlgorithm, ledger: ClaimLedger, binding: BindingCycle, hierarchy: GroupHierarchy,
        claims_of: ClaimsOf, features: Features,
    ) -> None:  # fmt: skip
        self._algorithm = algorithm
        self._machines = algorithm.machines
        self._ledger = ledger
        self._binding = binding
        self._hierarchy = hierarchy
        self._claims_of = claims_of
        self._by_placement = features.enabled("TopologyAwareWorkloadScheduling")

    def run(self, root: Group, waiting: Waiting) -> Results:
        """Return the results for a hierarchy. The root is unschedulable if no pod could be placed at all."""
        results: Results = {}
        booked: _Booked = []
        try:
            found = self._group(root, _ALL_NODES, waiting, results, booked)
        finally:
            self._revert(booked)
        if found.status.ok and not found.any_scheduled:
            found.status = GroupStatus(Code.UNSCHEDULABLE, prefixed=True)
        return results

    def _group(self, group: Group, nodes: int, waiting: Waiting, results: Results, booked: _Booked) -> GroupResult:
        """Try a group on its placements within some nodes; book the pods of the best one."""
        found = self._on_placements(group, nodes, waiting, results, booked)
        results[group.key] = found
        return found

    def _on_placements(
        self, group: Group, nodes: int, waiting: Waiting, results: Results, booked: _Booked
    ) -> GroupResult:
        if not self._by_placement:
            return self._on_nodes(group, nodes, waiting, results, booked)
        placed = [pod for leaf in group.leaves() for pod in self._hierarchy.scheduled(leaf.key)]
        where = [(f"{pod.namespace}/{pod.name}", self._machines.node_of(pod.uid) or "") for pod in placed]
        try:
            tried = placements.placements(group.topology_key, nodes, self._machines, where)
        except placements.UnknownDomain as error:
            return GroupResult(group, status.error(str(error)))
        if not tried:
            return GroupResult(group, GroupStatus(Code.UNSCHEDULABLE, status.NO_PLACEMENTS))
        first: Results | None = None
        good: list[tuple[placements.Candidate, Results, _Booked]] = []
        for placement in tried:
            subtree: Results = {}
            own: _Booked = []
            subtree[group.key] = found = self._on_nodes(group, placement.nodes, waiting, subtree, own)
            self._revert(own.copy())
            if found.status.code is Code.ERROR:
                results |= subtree
                return found
            first = subtree if first is None else first
            if found.status.ok:
                demands = [pod.demand for pod, _ in own]
                good.append((placements.Candidate(placement, demands), subtree, own))
        if not good:
            assert first is not None
            results |= first
            found = first[group.key]
            found.status = status.no_placement(len(tried), found.status)
            return found
        number = placements.best([candidate for candidate, _, _ in good], len(placed), self._machines)
        _, subtree, own = good[number]
        for pod, chosen in own:
            self._binding.assume(pod, chosen)
        booked += own
        results |= subtree
        return subtree[group.key]

    def _on_nodes(self, group: Group, nodes: int, waiting: Waiting, results: Results, booked: _Booked) -> GroupResult:
        """Try a group on some nodes; on failure, its bookings are reverted."""
        own: _Booked = []
        if group.is_composite:
            found = self._children(group, nodes, waiting, results, own)
        else:
            found = self._pods(group, nodes, waiting.get(group.key, ()), own)
        if found.status.ok:
            booked += own
        else:
            self._revert(own)
            found.any_scheduled = False
        return found

    def _children(self, group: Group, nodes: int, waiting: Waiting, results: Results, own: _Booked) -> GroupResult:
        remaining, scheduled = len(group.children), 0
        feasible = status.feasibility(group.minimum, scheduled, remaining)
        found = GroupResult(group, feasible)
        if feasible.code is Code.UNSCHEDULABLE:
            return found
        for child in group.children:
            result = self._group(child, nodes, waiting, results, own)
            if result.status.code is Code.ERROR:
                found.status = status.error(
                    f"composite pod group evaluation failed due to child error: {result.status.cause}"
                )
                return found
            found.any_scheduled = found.any_scheduled or result.any_scheduled
            remaining -= 1
            scheduled += result.status.ok
            found.status = status.feasibility(group.minimum, scheduled, remaining)
            if found.status.code is Code.UNSCHEDULABLE:
                break
        return found

    def _pods(self, group: Group, nodes: int, pods: Sequence[QueuedPod], own: _Booked) -> GroupResult:
        remaining, scheduled = len(pods), len(self._hierarchy.scheduled(group.key))
        found = GroupResult(group, status.feasibility(group.minimum, scheduled, remaining))
        if found.status.code is Code.UNSCHEDULABLE:
            found.status.prefixed = True
            return found
        for pod in pods:
            result = self.attempt(pod, nodes)
            found.pods.append(result)
            if isinstance(result.outcome, AttemptFailed):
                found.status = status.error(f"failed to schedule other pod from a pod group: {result.outcome.text}")
                break
            if isinstance(result.outcome, NodeAssignment):
                self._binding.assume(pod, result.outcome)
                own.append((pod, result.outcome))
                scheduled += 1
            remaining -= 1
            found.status = status.feasibility(group.minimum, scheduled, remaining)
            if found.status.code is Code.UNSCHEDULABLE:
                break
            found.any_scheduled = found.any_scheduled or result.fits
        if found.status.code is Code.WAIT:
            found.status = GroupStatus(Code.UNSCHEDULABLE, *found.status.reasons, prefixed=True)
        return found

    def attempt(self, pod: QueuedPod, nodes: int) -> PodResult:
        """Return the outcome for a pod on some nodes (a bit mask) in the current, possibly simulated state."""
        claims = self._claims_of(pod)
        if isinstance(claims, HoldReason):
            return PodResult(pod, outcome=NoNode(len(self._machines), prefilter_message=claims.text, cause="claim"))
        shared = [self._as_planned(claim) for claim in claims]
        outcome = self._algorithm.schedule(pod, shared, frozenset(self._ledger.unusable), nodes)
        return PodResult(pod, claims, outcome)

    def _as_planned(self, claim: CachedClaim) -> CachedClaim:
        """Return a claim as another pod of the simulation has it allocated: pods of a group can share it."""
        planner = self._ledger.in_flight.get(claim.key)
        if claim.allocation is not None or planner is None or planner in self._binding.pods:
            return claim
        return claim.planned(self._ledger.planned_allocation(claim.key))

    def _revert(self, booked: _Booked) -> None:
        while booked:
            pod, chosen = booked.pop()
            self._binding.forget(pod, chosen)


def complete(results: Results, root: Group, waiting: Waiting) -> None:
    """Give every PodGroup a result and every pod a status: a group fails with its parent."""
    _inherit(results, root, None)
    for leaf in root.leaves():
        result = results[leaf.key]
        tried = {pod.pod.uid for pod in result.pods}
        result.pods += [
            PodResult(pod, status=result.status.copy()) for pod in waiting.get(leaf.key, ()) if pod.uid not in tried
        ]


def _inherit(results: Results, group: Group, parent: GroupResult | None) -> None:
    result = results.get(group.key)
    if parent is not None and (result is None or (result.status.ok and not parent.status.ok)):
        result = results[group.key] = GroupResult(group, parent.status)
    assert result is not None
    for child in group.children:
        _inherit(results, child, result)
