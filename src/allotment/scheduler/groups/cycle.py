"""One scheduling decision for a hierarchy of PodGroups (KEP-4671), and its consequence for each pod.

If the group fits, its pods are bound; those that do not fit are retried immediately, because the group then no longer
needs them. Otherwise claims are freed that the group holds for nothing, pods of lower priority are preempted, and all
pods are parked, each with the reason that concerns it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.cluster.instrumentation import WorkInProgress
from allotment.engine.refusal import NO_NODES
from allotment.model import pod_groups
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.model.trees import Tree
from allotment.scheduler.attempt import AttemptFailed, NodeAssignment, NoNode, SchedulingAlgorithm
from allotment.scheduler.binding.cycle import BindingCycle
from allotment.scheduler.cluster_events import ClusterEvent, events_for
from allotment.scheduler.gated_pods import GatedPods
from allotment.scheduler.group_hierarchy import Group, GroupHierarchy
from allotment.scheduler.group_key import GroupKey
from allotment.scheduler.groups import status
from allotment.scheduler.groups.conditions import PodGroupConditions
from allotment.scheduler.groups.group_claims import GroupClaims
from allotment.scheduler.groups.group_preemption import GroupPreemption
from allotment.scheduler.groups.simulation import GroupResult, GroupSimulation, PodResult, Results, complete
from allotment.scheduler.groups.status import Code
from allotment.scheduler.pending_pods import PendingPods
from allotment.scheduler.pods import QueuedPod
from allotment.scheduler.queue import SchedulingQueue
from allotment.scheduler.reporting import fit_error
from allotment.scheduler.reporting.reporter import StatusReporter
from allotment.scheduler.reporting.verdict import Verdict

_HELD: Final = "held"
_PARKED: Final = "parked"
_PREEMPTION: Final = "pod group preemption: "

WaitingPods = dict[GroupKey, list[QueuedPod]]


class GroupCycle:
    """Schedules all pending pods of a hierarchy."""

    def __init__(
        self,
        hierarchy: GroupHierarchy,
        simulation: GroupSimulation,
        algorithm: SchedulingAlgorithm,
        pending_pods: PendingPods,
        queue: SchedulingQueue,
        gated: GatedPods,
        binding: BindingCycle,
        reporter: StatusReporter,
        conditions: PodGroupConditions,
        claims: GroupClaims,
        preemption: GroupPreemption,
        features: Features,
    ) -> None:
        self._hierarchy = hierarchy
        self._simulation = simulation
        self._algorithm = algorithm
        self._pending_pods = pending_pods
        self._queue = queue
        self._gated = gated
        self._binding = binding
        self._reporter = reporter
        self._conditions = conditions
        self._claims = claims
        self._preemption = preemption
        self._groups_have_policy = features.enabled("PodGroupPreemptionPolicy")
        self._by_placement = features.enabled("TopologyAwareWorkloadScheduling")

    def schedule(self, key: GroupKey, first: QueuedPod, work: WorkInProgress) -> None:
        """Schedule a pod taken from the queue together with all other pending pods of its hierarchy."""
        pods = self._regrouped(key, [first, *self._queue.take_group(key)])
        if not pods:
            work.result = "held"
            return
        try:
            self._schedule(key, pods, work)
        except Exception as error:
            for pod in pods:
                if pod.uid != first.uid and pod.uid not in self._queue and pod.uid not in self._binding.pods:
                    self._pending_pods.back_off(pod, f"internal error: {error}")
            raise

    def _schedule(self, key: GroupKey, pods: list[QueuedPod], work: WorkInProgress) -> None:
        work.attributes |= {"group": f"{key.namespace}/{key.name}", "pods": len(pods)}
        if why := self._hierarchy.unreadable():
            work.result = "error"
            for pod in pods:
                self._pending_pods.back_off(pod, why)
            return
        root = self._hierarchy.tree_of(key)
        if root is None or self._hierarchy.unready(root) or self._has_gated_pods(root):
            work.result = "held"
            for pod in pods:
                self._queue.park(pod, key, _HELD, frozenset())
            return
        waiting = _by_group(pods)
        if text := self._mismatch(root, pods):
            work.result = "error"
            self._fail(root, waiting, text)
            return
        results = self._simulation.run(root, waiting)
        code = results[key].status.code
        complete(results, root, waiting)
        if code is Code.UNSCHEDULABLE:
            self._post_filter(root, waiting, results)
        work.result = {Code.SUCCESS: "scheduled", Code.ERROR: "error"}.get(code, "unschedulable")
        self._submit(root, results, is_scheduled=code is Code.SUCCESS)

    def _regrouped(self, key: GroupKey, pods: list[QueuedPod]) -> list[QueuedPod]:
        """Return the pods that still belong to a hierarchy; the others are queued with their new one."""
        kept: list[QueuedPod] = []
        for pod in pods:
            current = self._hierarchy.key_of(pod.tree)
            if current == key or current is None:
                kept.append(pod)
            else:
                self._queue.add(pod, current)
                self._queue.wake_group(current)
        return kept

    def _has_gated_pods(self, root: Group) -> bool:
        """Whether a pod of the hierarchy has scheduling gates or lacks a claim; Kubernetes then holds all of them."""
        gated = self._gated.pods
        return any(pod.uid in gated for leaf in root.leaves() for pod in self._hierarchy.members(leaf.key))

    # --- preconditions -----------------------------------------------------------------------------------------------

    def _mismatch(self, root: Group, pods: list[QueuedPod]) -> str:
        """Return Kubernetes' error if the pods of a hierarchy differ in what they must have in common."""
        placed = [pod.tree for leaf in root.leaves() for pod in self._hierarchy.scheduled(leaf.key)]
        trees: list[Tree] = [*(pod.tree for pod in pods), *placed]
        name = str(trees[0]["spec"].get("schedulerName") or "")
        policy = root.preemption_policy if self._groups_have_policy else ""
        of_group = " as the pod group's preemption policy" if self._groups_have_policy else ""
        for spec in (tree["spec"] for tree in trees):
            if (other := str(spec.get("schedulerName") or "")) != name:
                return (
                    "all pods in a single pod group should have the same .spec.schedulerName set, got: "
                    f'"{other}" and "{name}"'
                )
            if (priority := int(spec.get("priority") or 0)) != root.priority:
                return (
                    "all pods in a single pod group should have the same priority as the pod group's priority, got "
                    f"{priority} and {root.priority}"
                )
            own = str(spec.get("preemptionPolicy") or "PreemptLowerPriority")
            policy = policy or own
            if own != policy:
                return (
                    f"all pods in a single pod group should have the same preemption policy{of_group}, got {own} and "
                    f"{policy}"
                )
        return ""

    def _fail(self, root: Group, waiting: WaitingPods, text: str) -> None:
        for leaf in root.leaves():
            for pod in waiting.get(leaf.key, ()):
                self._pending_pods.back_off(pod, text)
            self._conditions.report(leaf.key, status.error(text))

    # --- consequences ------------------------------------------------------------------------------------------------

    def _submit(self, root: Group, results: Results, *, is_scheduled: bool) -> None:
        leaves = [results[leaf.key] for leaf in root.leaves()]
        parked: list[tuple[PodResult, Verdict]] = []
        for result in leaves:
            for found in result.pods:
                if result.status.code is Code.ERROR:
                    own = found.outcome.text if isinstance(found.outcome, AttemptFailed) else result.status.message
                    self._pending_pods.back_off(found.pod, own)
                elif isinstance(found.outcome, NodeAssignment) and result.status.ok:
                    self._binding.start(found.pod, found.outcome)
                else:
                    parked.append((found, self._verdict(result, found)))
            self._conditions.report(result.group.key, result.status)
        if is_scheduled:  # the others are attempted again, now without the pods that were placed
            for found, _ in parked:
                self._queue.add(found.pod, root.key)
            return
        events = _awaited(found for found, _ in parked)
        if any(result.waits_for_preemption for result in leaves):
            events |= events_for({"resources", "ports", "neighbours"})
        for found, verdict in reversed(parked):  # `park` puts each pod in front
            self._queue.park(found.pod, root.key, _PARKED, events)
            self._reporter.report_alone(found.pod, verdict)

    def _verdict(self, result: GroupResult, found: PodResult) -> Verdict:
        nominated: str | None = "" if found.pod.nominated_node else None
        if result.waits_for_preemption:
            nominated = self._algorithm.nominations.get(found.pod.uid, (found.pod, nominated))[1]
        if isinstance(found.outcome, NoNode) and not found.outcome.nodes:
            return Verdict("Unschedulable", NO_NODES, nominated_node=nominated)
        if isinstance(found.outcome, NoNode):
            counts = fit_error.count_texts(t for r in found.outcome.refusals.values() for t in r.texts)
            text = fit_error.fit_error_message(found.outcome.nodes, counts, found.outcome.prefilter_message)
            elsewhere = tuple(str(claim.key) for claim in found.outcome.unavailable)
            refusals, group = found.outcome.refusals or None, result.group
            gang = (ObjectKey(group.key.namespace, group.key.name), group.minimum) if group.minimum > 1 else None
            return Verdict(
                "Unschedulable", text, found.outcome.pending, refusals, unreachable_claims=elsewhere,
                nominated_node=nominated, gang=gang, subject=found.outcome.prefilter_message,
            )  # fmt: skip
        text = result.status.message
        if found.outcome is None:
            assert found.status is not None
            text = found.status.message
        elif not result.waits_for_preemption:
            text = f"{status.UNSCHEDULABLE}, {text}"
        subject = f"pod group: {result.status.code.name}"  # the text counts its pods
        return Verdict("Unschedulable", text, nominated_node=nominated, subject=subject)

    # --- after an attempt that failed --------------------------------------------------------------------------------

    def _post_filter(self, root: Group, waiting: WaitingPods, results: Results) -> None:
        """Free claims and preempt pods; add what was done to the statuses of all groups."""
        reasons: list[str] = []
        if not root.is_composite and not (self._by_placement and root.has_constraints):
            reasons.append(self._claims.free(results[root.key]))
        found = self._preemption.preempt(root, waiting)
        # If it succeeded, or can never succeed, only its own reason counts.
        text = _PREEMPTION + found.text if found.is_final else ", ".join([*reasons, _PREEMPTION + found.text])
        for result in results.values():
            if found.code is Code.ERROR:
                result.status = status.error(text)
            else:
                result.status.reasons.append(text)
                result.waits_for_preemption = found.code is Code.SUCCESS


def _by_group(pods: Iterable[QueuedPod]) -> WaitingPods:
    """Return the pods by PodGroup, the oldest first."""
    found: WaitingPods = {}
    for pod in sorted(pods, key=lambda pod: (pod.created, pod.key)):
        key = GroupKey("podgroup", pod.key.namespace, pod_groups.group_name(pod.tree["spec"]))
        found.setdefault(key, []).append(pod)
    return found


def _awaited(results: Iterable[PodResult]) -> frozenset[ClusterEvent]:
    """Return the events that can resolve a refusal of any pod; if none was refused, those that change nodes."""
    causes: set[str] = set()
    for found in results:
        if isinstance(found.outcome, NoNode):
            causes |= found.outcome.causes()
    return events_for(causes or {"nodes"})
