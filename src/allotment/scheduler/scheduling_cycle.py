"""One decision about one pod, on the state of this moment, and what follows: it is carried out, or the pod waits.

Nothing here awaits anything, so nothing changes while it is decided; what takes its time is begun and goes on beside
it, and is booked before the next decision is made.
"""

from __future__ import annotations

from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.instrumentation import Work
from allotment.engine.refusal import NO_NODES
from allotment.model.meta import ObjectKey
from allotment.model.pod_groups import is_group
from allotment.node_fit.nodes import Machines
from allotment.scheduler.attempt import Attempts, Chosen, Failed, NoNode
from allotment.scheduler.binding.claim_writer import Claims
from allotment.scheduler.binding.cycle import Carrying
from allotment.scheduler.claim_ledger import KnownClaim, Ledger
from allotment.scheduler.coexistence.contested_claims import Guards
from allotment.scheduler.pending_pods import Waiting, alone
from allotment.scheduler.pod_groups import Grouping
from allotment.scheduler.pods import Hold, WaitingPod
from allotment.scheduler.preemption import victims
from allotment.scheduler.preemption.eviction import Sender
from allotment.scheduler.reporting import fit_error
from allotment.scheduler.reporting.verdict import Verdict
from allotment.tools.explain.extended_resources import served_by_classes

_NOBODY: Final = ObjectKey("", "")


class Deciding:
    """Decides."""

    def __init__(
        self, machines: Machines, ledger: Ledger, groups: Grouping, attempts: Attempts, waiting: Waiting,
        carrying: Carrying, claims: Claims, guards: Guards, sender: Sender, budgets: Cache[Any],
    ) -> None:  # fmt: skip
        self._machines = machines
        self._ledger = ledger
        self._groups = groups
        self._attempts = attempts
        self._waiting = waiting
        self._carrying = carrying
        self._claims = claims
        self._guards = guards
        self._sender = sender
        self._budgets = budgets

    def decide(self, pod: WaitingPod, work: Work) -> None:
        """Find a node and devices for a pod that is in no queue now, or say why there are none."""
        claims = self._waiting.claims_of(pod)
        if isinstance(claims, Hold):
            work.result = "held"
            self._waiting.hold(pod, claims)
            return
        work.attributes["claims"] = len(claims)
        left = self._ledger.known.get(self._ledger.extended.get(pod.uid, _NOBODY))
        if left is not None:
            work.result = "discarded"
            self._discard(pod, left)
            return
        outcome = self._attempts.attempt(pod, claims, frozenset(self._ledger.unusable))
        if isinstance(outcome, Chosen):
            work.result = "scheduled"
            work.attributes["node"] = outcome.node
            self._carrying.begin(pod, outcome)
        elif isinstance(outcome, Failed):
            work.result = "error"
            self._waiting.failed(pod, outcome.text, outcome.pending)
        else:
            work.result = "unschedulable"
            self._no_node(pod, claims, outcome)

    def _discard(self, pod: WaitingPod, left: KnownClaim) -> None:
        """An earlier attempt, of a scheduler that is no more, made a claim for extended resources: it goes first."""
        nodes = len(self._machines)
        after = fit_error.afterwards(fit_error.DISCARDED, nodes, {fit_error.NOT_HELPFUL: nodes})
        text = fit_error.unavailable(nodes, {fit_error.LEFT_BEHIND: nodes}, after=after)
        self._waiting.park(pod, alone(pod), Verdict("Unschedulable", text), {"claim"})
        away = self._guards.replace(left, pod) if self._guards.is_contested(left) else self._claims.discard(left)
        self._waiting.follow(pod, away, f"discard claim {left.key}")

    def _no_node(self, pod: WaitingPod, claims: list[KnownClaim], outcome: NoNode) -> None:
        key = self._waiting.group_of(pod)
        nominated: str | None = "" if pod.nominated else None
        if not outcome.nodes:
            verdict = Verdict("Unschedulable", NO_NODES)
        elif outcome.before:
            self._attempts.nominations.pop(pod.uid, None)
            after = fit_error.afterwards(fit_error.NO_CLAIMS, outcome.nodes, {fit_error.NOT_HELPFUL: outcome.nodes})
            text = fit_error.unavailable(outcome.nodes, {}, outcome.before, after)
            full = (str(outcome.full.key), len(outcome.full.users)) if outcome.full is not None else None
            group_name = self._groups.missing(pod.tree)
            verdict = Verdict("Unschedulable", text, outcome.pending, group=group_name, full=full)
        else:
            counts = fit_error.counted(t for r in outcome.refusals.values() for t in r.texts)
            found = self._preempt(pod, claims, outcome)
            if isinstance(found, victims.Victims):
                nominated = found.node
                key = alone(pod)  # those who ask for the same have no such promise
                text = fit_error.unavailable(outcome.nodes, counts)
            else:
                if isinstance(found, str):
                    nominated = None  # whoever may not preempt keeps what was promised
                text = fit_error.unavailable(
                    outcome.nodes,
                    counts,
                    after=fit_error.afterwards(self._free_claims(pod, claims, outcome), outcome.nodes, found),
                )
            elsewhere = tuple(str(claim.key) for claim in outcome.unavailable)
            verdict = Verdict(
                "Unschedulable", text, outcome.pending, outcome.refusals, elsewhere=elsewhere, nominated=nominated
            )
        self._waiting.park(pod, key, verdict, outcome.causes())

    def _free_claims(self, pod: WaitingPod, claims: list[KnownClaim], outcome: NoNode) -> str:
        """Free a claim whose devices are where the pod cannot go, if nobody else uses it."""
        for claim in outcome.unavailable:
            if all(user.get("uid") == pod.uid for user in claim.users):
                self._waiting.follow(pod, self._claims.deallocate(claim, pod), f"deallocate claim {claim.key}")
                return fit_error.DEALLOCATED
        # Perhaps other devices would do for the group; while none of its pods has a node, nobody uses these.
        group = self._groups.of(pod.tree)
        if group and not self._groups.is_placed(pod, self._carrying.pods.values()):
            for claim in claims:
                if any(is_group(user) and user.get("name") == group for user in claim.users):
                    self._waiting.follow(pod, self._claims.unreserve(claim, group), f"unreserve claim {claim.key}")
                    return fit_error.UNRESERVED
        classes, features = self._attempts.allocator.inventory.classes, self._attempts.features
        asks = claims or served_by_classes(classes, pod.demand, features)
        return fit_error.STILL_NOT if asks else fit_error.NO_CLAIMS

    def _preempt(
        self, pod: WaitingPod, claims: list[KnownClaim], outcome: NoNode
    ) -> victims.Victims | dict[str, int] | str:
        if pod.tree["spec"].get("preemptionPolicy") == "Never":
            return fit_error.NEVER_PREEMPTS
        nominated = self._machines.by_name.get(pod.nominated) if pod.nominated else None
        if nominated is not None and any(
            other.terminating and other.preempted and other.priority < pod.priority for other in nominated.pods.values()
        ):
            return fit_error.VICTIM_LEAVING
        found = victims.choose(
            pod.resident, outcome.refusals, self._machines, [item.tree for item in self._budgets.items()],
            lambda machine: self._attempts.refusal_on(pod, claims, machine),
        )  # fmt: skip
        if found.victims is None:
            self._attempts.nominations.pop(pod.uid, None)
            return dict(found.reasons)
        self._attempts.nominations[pod.uid] = (pod, found.victims.node)
        node = found.victims.node
        for victim in found.victims.pods:
            sent = self._sender.send_away(victim, pod, node)
            self._waiting.follow(pod, sent, f"preempt pod {victim.namespace}/{victim.name}")
        return found.victims
