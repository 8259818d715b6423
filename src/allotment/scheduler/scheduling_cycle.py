"""One scheduling decision for one pod, and its consequence: the pod is bound, parked, held back or retried.

Nothing here is awaited, so the state does not change during a decision. Writes run as background tasks and are booked
before the next decision is made.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.instrumentation import WorkInProgress
from allotment.engine.refusal import NO_NODES
from allotment.explanation.extended_resources import served_by_classes
from allotment.model.meta import ObjectKey
from allotment.model.pod_groups import is_group
from allotment.node_fit.nodes import NodeCache
from allotment.scheduler.attempt import AttemptFailed, NodeAssignment, NoNode, SchedulingAlgorithm
from allotment.scheduler.binding.claim_writer import ClaimWriter
from allotment.scheduler.binding.cycle import BindingCycle
from allotment.scheduler.claim_ledger import CachedClaim, ClaimLedger
from allotment.scheduler.coexistence.contested_claims import ContestedClaims
from allotment.scheduler.group_key import GroupKey
from allotment.scheduler.groups.cycle import GroupCycle
from allotment.scheduler.pending_pods import PendingPods, own_group_key
from allotment.scheduler.pod_groups import PodGroups
from allotment.scheduler.pods import HoldReason, QueuedPod
from allotment.scheduler.preemption import victims
from allotment.scheduler.preemption.budgets import DisruptionBudgets
from allotment.scheduler.preemption.eviction import PreemptionEvictor
from allotment.scheduler.preemption.victim_units import Membership, without_groups
from allotment.scheduler.release import scheduler_release
from allotment.scheduler.reporting import fit_error
from allotment.scheduler.reporting.verdict import Verdict

_NO_KEY: Final = ObjectKey("", "")


class SchedulingCycle:
    def __init__(
        self,
        machines: NodeCache,
        ledger: ClaimLedger,
        groups: PodGroups,
        algorithm: SchedulingAlgorithm,
        pending_pods: PendingPods,
        binding: BindingCycle,
        claims: ClaimWriter,
        contested: ContestedClaims,
        evictor: PreemptionEvictor,
        budgets: Cache[Any],
        membership: Membership = without_groups,
        group_cycle: GroupCycle | None = None,
    ) -> None:
        self._machines = machines
        self._ledger = ledger
        self._groups = groups
        self._algorithm = algorithm
        self._pending_pods = pending_pods
        self._binding = binding
        self._claims = claims
        self._contested = contested
        self._evictor = evictor
        self._budgets = budgets
        self._membership = membership
        self._group_cycle = group_cycle
        self._release = scheduler_release(algorithm.features)

    def schedule_one(self, pod: QueuedPod, work: WorkInProgress) -> None:
        """Find a node and devices for a pod taken from the queue, or park it with the reasons; the same for all pods
        of its PodGroup.
        """
        if isinstance(pod.group, GroupKey):
            assert self._group_cycle is not None
            self._group_cycle.schedule(pod.group, pod, work)
            return
        claims = self._pending_pods.claims_of(pod)
        if isinstance(claims, HoldReason):
            work.result = "held"
            self._pending_pods.gate(pod, claims)
            return
        work.attributes["claims"] = len(claims)
        left = self._ledger.known.get(self._ledger.extended_claims.get(pod.uid, _NO_KEY))
        if left is not None:
            work.result = "discarded"
            self._discard_leftover(pod, left)
            return
        outcome = self._algorithm.schedule(pod, claims, frozenset(self._ledger.unusable))
        if isinstance(outcome, NodeAssignment):
            work.result = "scheduled"
            work.attributes["node"] = outcome.node
            self._binding.start(pod, outcome)
        elif isinstance(outcome, AttemptFailed):
            work.result = "error"
            self._pending_pods.back_off(pod, outcome.text, outcome.pending)
        else:
            work.result = "unschedulable"
            self._no_node(pod, claims, outcome)

    def _discard_leftover(self, pod: QueuedPod, left: CachedClaim) -> None:
        """Delete a claim for extended resources that an attempt of a terminated scheduler left behind, and retry the
        pod.
        """
        nodes = len(self._machines)
        after = fit_error.post_filter_message(fit_error.DISCARDED, nodes, {fit_error.NOT_HELPFUL: nodes})
        text = fit_error.fit_error_message(nodes, {fit_error.LEFT_BEHIND: nodes}, after=after)
        self._pending_pods.park(
            pod, own_group_key(pod), Verdict("Unschedulable", text, subject=fit_error.LEFT_BEHIND), {"claim"}
        )
        away = self._contested.replace(left, pod) if self._contested.is_contested(left) else self._claims.discard(left)
        self._pending_pods.start_or_retry(pod, away, f"discard claim {left.key}")

    def _no_node(self, pod: QueuedPod, claims: list[CachedClaim], outcome: NoNode) -> None:
        key = self._pending_pods.group_key(pod)
        nominated: str | None = "" if pod.nominated_node else None
        if not outcome.nodes:
            verdict = Verdict("Unschedulable", NO_NODES)
        elif outcome.prefilter_message:
            self._algorithm.nominations.pop(pod.uid, None)
            after = fit_error.post_filter_message(
                self._unchanged(fit_error.NO_CLAIMS), outcome.nodes, {fit_error.NOT_HELPFUL: outcome.nodes}
            )
            if outcome.cause in ("volumes", "volume-claims"):
                after = fit_error.NO_DEVICE_STATE
            text = fit_error.fit_error_message(outcome.nodes, {}, outcome.prefilter_message, after)
            full = (
                (str(outcome.full_claim.key), len(outcome.full_claim.users)) if outcome.full_claim is not None else None
            )
            group_name = self._groups.missing(pod.tree)
            verdict = Verdict(
                "Unschedulable", text, outcome.pending, missing_group=group_name, full_claim=full,
                subject=outcome.prefilter_message,
            )  # fmt: skip
        else:
            counts = fit_error.count_texts(t for r in outcome.refusals.values() for t in r.texts)
            found = self._preempt(pod, claims, outcome)
            if isinstance(found, victims.Victims):
                nominated = found.node
                key = own_group_key(pod)  # equivalent pods have no such nomination
                after = ""
                if self._release.reports_preemption:
                    after = fit_error.preemption_message(found.node, len(found.pods))
                text = fit_error.fit_error_message(outcome.nodes, counts, after=after)
            else:
                if isinstance(found, str):
                    nominated = None  # a pod that may not preempt keeps its nomination
                text = fit_error.fit_error_message(
                    outcome.nodes,
                    counts,
                    after=fit_error.post_filter_message(self._free_claims(pod, claims, outcome), outcome.nodes, found),
                )
            elsewhere = tuple(str(claim.key) for claim in outcome.unavailable)
            verdict = Verdict(
                "Unschedulable",
                text,
                outcome.pending,
                outcome.refusals,
                unreachable_claims=elsewhere,
                nominated_node=nominated,
            )
        self._pending_pods.park(pod, key, verdict, outcome.causes())

    def _free_claims(self, pod: QueuedPod, claims: list[CachedClaim], outcome: NoNode) -> str:
        """Free a claim that cannot be used on any feasible node, if no other pod uses it; return the text of what was
        done.
        """
        for claim in outcome.unavailable:
            if all(user.get("uid") == pod.uid for user in claim.users):
                deallocate = partial(self._claims.deallocate, claim, pod.uid)
                self._pending_pods.start_after_report(pod, deallocate, f"deallocate claim {claim.key}")
                return fit_error.DEALLOCATED
        # Other devices may fit the group; while none of its pods has a node, these are unused.
        group = self._groups.of(pod.tree)
        if group and not self._groups.is_placed(pod, self._binding.pods.values()):
            for claim in claims:
                if any(is_group(user) and user.get("name") == group for user in claim.users):
                    self._pending_pods.start_or_retry(
                        pod, self._claims.unreserve(claim, group), f"unreserve claim {claim.key}"
                    )
                    return fit_error.UNRESERVED
        classes, features = self._algorithm.allocator.inventory.classes, self._algorithm.features
        needs_devices = claims or served_by_classes(classes, pod.demand, features)
        return self._unchanged(fit_error.STILL_NOT if needs_devices else fit_error.NO_CLAIMS)

    def _unchanged(self, text: str) -> str:
        """Return the text of the release for a pod of which no claim was freed; empty from 1.37."""
        return text if self._release.reports_unchanged_claims else ""

    def _preempt(
        self, pod: QueuedPod, claims: list[CachedClaim], outcome: NoNode
    ) -> victims.Victims | dict[str, int] | str:
        if pod.tree["spec"].get("preemptionPolicy") == "Never":
            return fit_error.NEVER_PREEMPTS
        nominated = self._machines.by_name.get(pod.nominated_node) if pod.nominated_node else None
        if nominated is not None and any(
            other.terminating and other.preempted and other.priority < pod.priority for other in nominated.pods.values()
        ):
            return fit_error.VICTIM_LEAVING
        budgets = DisruptionBudgets(
            [item.tree for item in self._budgets.items()], self._release.stops_at_violated_budget
        )
        found = victims.select_victims(
            pod.resident, outcome.refusals, self._machines, budgets,
            lambda machine: self._algorithm.refusal_on(pod, claims, machine), self._membership,
        )  # fmt: skip
        if found.victims is None:
            self._algorithm.nominations.pop(pod.uid, None)
            return dict(found.reasons)
        self._algorithm.nominations[pod.uid] = (pod, found.victims.node)
        node = found.victims.node
        for victim in found.victims.pods:
            sent = self._evictor.preempt(victim, pod.uid, node)
            self._pending_pods.start_or_retry(pod, sent, f"preempt pod {victim.namespace}/{victim.name}")
        return found.victims
