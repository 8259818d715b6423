"""Pods without a node: which are tried and which held back, who shares whose fate, and which claims they wait for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Iterable
from typing import Any, Final

from allotment.cluster.clock import Clock
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.model.trees import Tree
from allotment.node_fit.nodes import Machines
from allotment.scheduler.attempt import Attempts
from allotment.scheduler.claim_ledger import KnownClaim, Ledger
from allotment.scheduler.cluster_events import Happening, helped_by
from allotment.scheduler.gated_pods import Held
from allotment.scheduler.pending_events import News
from allotment.scheduler.pod_groups import Grouping
from allotment.scheduler.pods import Hold, WaitingPod, claim_keys, claims_of
from allotment.scheduler.queue import Queue
from allotment.scheduler.reporting import fit_error
from allotment.scheduler.reporting.reporter import Teller, condition_patch
from allotment.scheduler.reporting.verdict import Verdict

Start = Callable[[Coroutine[Any, Any, None], str], None]
"""Begins work that takes its time (see `under_way`)."""
Replace = Callable[[KnownClaim, WaitingPod], Coroutine[Any, Any, bool]]
"""Gives a pod another claim for one that was set aside (see `beside.guards`)."""

_NOT_OWNED: Final = "claim-not-owned"


class Waiting:
    """Every pod that waits is in the queue, or held back."""

    def __init__(
        self, ledger: Ledger, groups: Grouping, machines: Machines, attempts: Attempts, queue: Queue, held: Held,
        teller: Teller, news: News, clock: Clock, start: Start, replace: Replace,
    ) -> None:  # fmt: skip
        self._ledger = ledger
        self._groups = groups
        self._machines = machines
        self._nominations = attempts.nominations
        self._queue = queue
        self._held = held
        self._teller = teller
        self._news = news
        self._clock = clock
        self._start = start
        self._replace = replace
        self._users: dict[ObjectKey, set[str]] = {}
        """Held or waiting pods (uid) by the claims that they name."""

    # --- coming and going --------------------------------------------------------------------------------------------

    def add(self, pod: WaitingPod) -> None:
        """A pod waits from now on, or asks for something else than before."""
        self._held.remove(pod.uid)
        self._note_users(pod)
        if pod.gates:
            self._queue.remove(pod.uid)
            self._held.put(pod, None)
            patch = condition_patch(pod.tree, "SchedulingGated", fit_error.GATED, self._clock.now())
            if patch and not _has_condition(pod.tree):
                self._start(self._say_gated(pod, patch), f"gated {pod.key}")
            return
        if pod.nominated:
            self._nominations[pod.uid] = (pod, pod.nominated)  # by this scheduler, one before it, or others
        claims = self.claims_of(pod)
        if isinstance(claims, Hold):
            self.hold(pod, claims)
            return
        group = self._queue.add(pod, self.group_of(pod))
        if group is not None:
            self._teller.tell(group)
        else:
            self._news.wake()

    async def _say_gated(self, pod: WaitingPod, patch: Tree) -> None:
        await self._teller.patch(pod.key, pod.uid, patch)

    def nominated(self, pod: WaitingPod, before: str) -> None:
        """Somebody says another node of a pod that waits. It is not tried for that, but keeps the room there."""
        if pod.nominated == before:
            self._queue.replace(pod)
            return
        if pod.nominated:
            self._nominations[pod.uid] = (pod, pod.nominated)
            self._queue.set_apart(pod, self.group_of(pod))
        else:
            self._nominations.pop(pod.uid, None)
            self._queue.replace(pod)
        if before:
            self._news.happened(Happening.POD_GONE)

    def leave(self, uid: str) -> None:
        """A pod waits no longer: it has a node, or goes."""
        pod = self._queue.remove(uid) or self._held.remove(uid)
        self._teller.forget(uid)
        if self._nominations.pop(uid, None) is not None:
            self._news.happened(Happening.POD_GONE)
        if pod is not None:
            self.forget_claims(pod)

    def chosen(self, pod: WaitingPod) -> None:
        """A node was found for a pod that was tried: it waits for nothing but what is written now."""
        self._nominations.pop(pod.uid, None)
        self._teller.forget(pod.uid)

    def gone(self, uid: str) -> None:
        """A pod is no more."""
        self.leave(uid)
        self._held.forget(uid)

    # --- not tried, or in vain ---------------------------------------------------------------------------------------

    def hold(self, pod: WaitingPod, hold: Hold) -> None:
        """A pod is not tried at all until its claims are there."""
        self._queue.remove(pod.uid)
        self._note_users(pod)
        self._held.put(pod, hold)
        for key in claim_keys(pod.tree) if hold.code == _NOT_OWNED else ():
            known = self._ledger.known.get(key)
            if known is not None and known.guards:  # it was set aside, and the pod has not got another
                self.follow(pod, self._replace(known, pod), f"replace claim {key}")

    def park(self, pod: WaitingPod, key: Hashable, verdict: Verdict, causes: Iterable[str]) -> None:
        """A pod found no node, and waits until something happens that may help against these causes."""
        group = self._queue.park(pod, key, verdict, helped_by(causes))
        self._note_users(pod)
        self._teller.tell(group)

    def failed(self, pod: WaitingPod, text: str, pending: tuple[ResourceClaim, ...] = ()) -> None:
        """An attempt, or what followed from it, ended with an error: the pod is tried again after a while."""
        self._nominations.pop(pod.uid, None)
        verdict = Verdict("SchedulerError", text, pending, nominated="" if pod.nominated else None)
        self._queue.back_off(pod, self.group_of(pod), self._clock.seconds())
        self._note_users(pod)
        self._teller.tell_alone(pod, verdict)
        self._news.wake()

    def follow(self, pod: WaitingPod, work: Coroutine[Any, Any, bool], what: str) -> None:
        """Begin what a pod waits for. Nothing happens if it fails, so then the pod is tried again by itself."""

        async def done() -> None:
            if not await work and (waiting := self._queue.remove(pod.uid) or self._held.remove(pod.uid)) is not None:
                self.failed(waiting, f"{what}: the cluster refused it, or did not answer")

        self._start(done(), what)

    # --- claims ------------------------------------------------------------------------------------------------------

    def claims_of(self, pod: WaitingPod) -> list[KnownClaim] | Hold:
        """The claims of a pod, or why they are not all there."""
        return claims_of(pod.tree, self._ledger, self._groups.of(pod.tree))

    def group_of(self, pod: WaitingPod) -> Hashable:
        """Pods with equal keys would get equal answers from any node."""
        claims = self.claims_of(pod)
        if isinstance(claims, Hold) or pod.nominated or pod.uid in self._nominations:
            return alone(pod)
        if any(claim.allocation is not None or not claim.is_made_for(pod.uid) for claim in claims):
            return alone(pod)
        labels: Hashable = ()
        if pod.demand.social or self._machines.neighbourly:
            labels = (pod.resident.namespace, tuple(sorted(pod.resident.labels.items())))
        policy = pod.tree["spec"].get("preemptionPolicy")
        return (id(pod.demand), pod.priority, policy, labels, *(id(claim.value.spec) for claim in claims))

    def claim_changed(self, key: ObjectKey) -> None:
        """A claim came, changed or went: pods that name it may be tried now."""
        users = self._users.get(key)
        if not users:
            return
        self._news.happened(Happening.CLAIM_CHANGED)
        for uid in tuple(users):
            held = self._held.remove(uid)
            if held is not None:
                self.add(held)

    def forget_claims(self, pod: WaitingPod) -> None:
        """A pod waits for its claims no longer."""
        for key in claim_keys(pod.tree):
            users = self._users.get(key)
            if users is not None:
                users.discard(pod.uid)
                if not users:
                    del self._users[key]

    def _note_users(self, pod: WaitingPod) -> None:
        for key in claim_keys(pod.tree):
            self._users.setdefault(key, set()).add(pod.uid)


def alone(pod: WaitingPod) -> Hashable:
    """The key of a pod that shares its fate with nobody."""
    return ("alone", pod.uid)


def _has_condition(tree: Tree) -> bool:
    return any(c.get("type") == "PodScheduled" for c in (tree.get("status") or {}).get("conditions") or ())
