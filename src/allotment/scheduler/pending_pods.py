"""Pods without a node: which are queued, which are held back, which are equivalent, and which claims they wait for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Iterable
from typing import Any, Final

from allotment.cluster.clock import Clock
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.model.trees import Tree
from allotment.node_fit.nodes import NodeCache
from allotment.scheduler.attempt import SchedulingAlgorithm
from allotment.scheduler.claim_ledger import CachedClaim, ClaimChange, ClaimLedger
from allotment.scheduler.cluster_events import ClusterEvent, events_for
from allotment.scheduler.gated_pods import GatedPods
from allotment.scheduler.group_hierarchy import GroupHierarchy, is_relevant_change
from allotment.scheduler.group_key import LEVELS, GroupKey
from allotment.scheduler.pending_events import PendingEvents
from allotment.scheduler.pod_groups import PodGroups
from allotment.scheduler.pods import HoldReason, QueuedPod, claim_keys, resolve_claims
from allotment.scheduler.queue import SchedulingQueue
from allotment.scheduler.reporting import fit_error
from allotment.scheduler.reporting.reporter import REPORT_DELAY, StatusReporter, condition_patch
from allotment.scheduler.reporting.verdict import Verdict

StartTask = Callable[[Coroutine[Any, Any, None], str], None]
"""Starts a background task (see `program.TaskTracker`)."""
ReplaceClaim = Callable[[CachedClaim, QueuedPod], Coroutine[Any, Any, bool]]
"""Gives a pod a new claim for one that is detached (see `coexistence.contested_claims`)."""

_NOT_OWNED: Final = "claim-not-owned"


class PendingPods:
    """Keeps every pending pod either in the scheduling queue or among the gated pods."""

    def __init__(
        self,
        ledger: ClaimLedger,
        groups: PodGroups,
        hierarchy: GroupHierarchy,
        machines: NodeCache,
        algorithm: SchedulingAlgorithm,
        queue: SchedulingQueue,
        gated: GatedPods,
        reporter: StatusReporter,
        events: PendingEvents,
        clock: Clock,
        start: StartTask,
        replace: ReplaceClaim,
    ) -> None:
        self._ledger = ledger
        self._groups = groups
        self._hierarchy = hierarchy
        self._machines = machines
        self._nominations = algorithm.nominations
        self._queue = queue
        self._gated = gated
        self._reporter = reporter
        self._events = events
        self._clock = clock
        self._start = start
        self._replace = replace
        self._users: dict[ObjectKey, set[str]] = {}
        """Uids of pending pods by the claims that they reference."""

    # --- adding and removing -----------------------------------------------------------------------------------------

    def add(self, pod: QueuedPod, *, retry: bool = False) -> None:
        """Add a pending pod, or one whose requirements changed. ``retry``: even if equivalent pods are parked."""
        self._gated.remove(pod.uid)
        self._note_users(pod)
        if pod.gates:
            self._queue.remove(pod.uid)
            self._gated.put(pod, None)
            patch = condition_patch(pod.tree, "SchedulingGated", fit_error.GATED, self._clock.now())
            if patch and not _has_condition(pod.tree):
                self._start(self._report_gated(pod, patch), f"gated {pod.key}")
            return
        if pod.nominated_node:
            self._nominations[pod.uid] = (
                pod,
                pod.nominated_node,
            )  # by this scheduler, its predecessor, or another client
        claims = self.claims_of(pod)
        if isinstance(claims, HoldReason):
            self.gate(pod, claims)
            return
        key = self.group_key(pod)
        group = self._queue.add(pod, key)
        if group is not None and not retry and not isinstance(key, GroupKey):
            self._reporter.report(group)
        else:
            self._queue.wake_group(key)  # one more pod can complete a gang, too
            self._events.wake()

    async def _report_gated(self, pod: QueuedPod, patch: Tree) -> None:
        await self._reporter.patch(pod.key, pod.uid, patch)

    def nomination_changed(self, pod: QueuedPod, before: str) -> None:
        """Another client changed a pending pod's nominated node: the pod is not retried, but the room there is kept for
        it.
        """
        if pod.nominated_node == before:
            self._queue.replace(pod)
            return
        if pod.nominated_node:
            self._nominations[pod.uid] = (pod, pod.nominated_node)
            self._queue.separate(pod, self.group_key(pod))
        else:
            self._nominations.pop(pod.uid, None)
            self._queue.replace(pod)
        if before:
            self._events.add(ClusterEvent.POD_GONE)

    def remove(self, uid: str) -> None:
        """Remove a pod that has a node or is being deleted."""
        pod = self._queue.remove(uid) or self._gated.remove(uid)
        self._reporter.forget(uid)
        if self._nominations.pop(uid, None) is not None:
            self._events.add(ClusterEvent.POD_GONE)
        if pod is not None:
            self.forget_claims(pod)

    def node_assigned(self, pod: QueuedPod) -> None:
        """Remove the state of a pod for which a node was found; only its binding remains."""
        self._nominations.pop(pod.uid, None)
        self._reporter.forget(pod.uid)

    def deleted(self, uid: str) -> None:
        """Remove a deleted pod."""
        self.remove(uid)
        self._gated.forget(uid)

    # --- held back, parked, retried ----------------------------------------------------------------------------------

    def gate(self, pod: QueuedPod, reason: HoldReason) -> None:
        """Hold a pod back until its claims exist."""
        self._queue.remove(pod.uid)
        self._note_users(pod)
        self._gated.put(pod, reason)
        for key in claim_keys(pod.tree) if reason.code == _NOT_OWNED else ():
            known = self._ledger.known.get(key)
            if known is not None and known.is_detached:  # it was detached, and the pod has no new claim yet
                self.start_or_retry(pod, self._replace(known, pod), f"replace claim {key}")

    def park(self, pod: QueuedPod, key: Hashable, verdict: Verdict, causes: Iterable[str]) -> None:
        """Park a pod for which no node is feasible until an event that can resolve these causes."""
        group = self._queue.park(pod, key, verdict, events_for(causes))
        self._note_users(pod)
        self._reporter.report(group)

    def back_off(self, pod: QueuedPod, text: str, pending: tuple[ResourceClaim, ...] = ()) -> None:
        """Retry a pod after a back-off, because its attempt or what followed ended with an error."""
        self._nominations.pop(pod.uid, None)
        verdict = Verdict("SchedulerError", text, pending, nominated_node="" if pod.nominated_node else None)
        self._queue.back_off(pod, self.group_key(pod), self._clock.seconds())
        self._note_users(pod)
        self._reporter.report_alone(pod, verdict)
        self._events.wake()

    def start_or_retry(self, pod: QueuedPod, work: Coroutine[Any, Any, bool], description: str) -> None:
        """Start work that a pod waits for. If it fails no event follows, so the pod is retried after a back-off."""

        async def done() -> None:
            if not await work and (waiting := self._queue.remove(pod.uid) or self._gated.remove(pod.uid)) is not None:
                self.back_off(waiting, f"{description}: the API server rejected the request or did not answer")

        self._start(done(), description)

    def start_after_report(
        self, pod: QueuedPod, work: Callable[[], Coroutine[Any, Any, bool]], description: str
    ) -> None:  # fmt: skip
        """Start work as `start_or_retry` does, once the reason why the pod is pending is written: what follows can
        schedule the pod, and would then leave the reason of an earlier attempt in its status.
        """

        async def later() -> bool:
            await self._clock.sleep(2 * REPORT_DELAY)
            await self._reporter.wait_written(pod.uid)
            return await work()

        self.start_or_retry(pod, later(), description)

    # --- claims ------------------------------------------------------------------------------------------------------

    def claims_of(self, pod: QueuedPod) -> list[CachedClaim] | HoldReason:
        """Return the claims of a pod, or why some are missing."""
        return resolve_claims(pod.tree, self._ledger, self._groups.of(pod.tree))

    def group_key(self, pod: QueuedPod) -> Hashable:
        """Return a key that is equal for pods for which every node gives the same answer, or that are scheduled
        together.
        """
        if (root := self._hierarchy.key_of(pod.tree)) is not None:
            return root
        claims = self.claims_of(pod)
        if isinstance(claims, HoldReason) or pod.nominated_node or pod.uid in self._nominations:
            return own_group_key(pod)
        if pod.volume_claims or any(
            claim.allocation is not None or not claim.is_controlled_by(pod.uid) for claim in claims
        ):
            return own_group_key(pod)
        labels: Hashable = ()
        if pod.demand.depends_on_other_pods or self._machines.pods_with_affinity:
            labels = (pod.resident.namespace, tuple(sorted(pod.resident.labels.items())))
        policy = pod.tree["spec"].get("preemptionPolicy")
        return (id(pod.demand), pod.priority, policy, labels, *(id(claim.value.spec) for claim in claims))

    def claim_changed(self, key: ObjectKey, change: ClaimChange | None) -> None:
        """A claim was added, changed, or (``change`` is None) deleted: retry the pods that reference it.

        As in Kubernetes, a deletion, or a change of the metadata alone, retries no pod that was already attempted. A
        claim that is deleted and created again with its name may have other requests.
        """
        for uid in tuple(self._users.get(key, ())):
            if (held := self._gated.remove(uid)) is not None:
                self.add(held)
            elif change not in (None, "same") and (parked := self._queue.parked(uid)) is not None:
                self.add(parked, retry=True)

    def retry(self, uid: str) -> None:
        """Retry a parked pod: one of its PersistentVolumeClaims was added or changed."""
        if (parked := self._queue.parked(uid)) is not None:
            self.add(parked, retry=True)

    # --- PodGroups ---------------------------------------------------------------------------------------------------

    def member_placed(self, pod: Tree) -> None:
        """A pod got a node: retry the other pods of its group, which may now be complete."""
        if (root := self._hierarchy.key_of(pod)) is not None:
            self._queue.wake_group(root)
            self._events.wake()

    def group_changed(self, old: Tree | None, new: Tree | None) -> None:
        """A PodGroup or CompositePodGroup was added, changed or deleted: retry the pods of its hierarchy if it can be
        scheduled now.
        """
        tree = new or old
        if tree is None or not is_relevant_change(old, new):
            return
        namespace, name = tree["metadata"].get("namespace", ""), tree["metadata"]["name"]
        roots = {self._hierarchy.root_of(GroupKey(level, namespace, name)) for level in LEVELS}
        for group in self._queue.groups():
            if not isinstance(group.key, GroupKey) or group.key.namespace != namespace:
                continue
            for pod in tuple(group.pods.values()):
                if (key := self.group_key(pod)) != group.key:
                    self._queue.add(pod, key)
                    self._queue.wake_group(key)
            if group.key in roots:
                self._queue.wake_group(group.key)
        self._events.wake()

    def forget_claims(self, pod: QueuedPod) -> None:
        """Remove a pod from the users of its claims."""
        for key in claim_keys(pod.tree):
            users = self._users.get(key)
            if users is not None:
                users.discard(pod.uid)
                if not users:
                    del self._users[key]

    def _note_users(self, pod: QueuedPod) -> None:
        for key in claim_keys(pod.tree):
            self._users.setdefault(key, set()).add(pod.uid)


def own_group_key(pod: QueuedPod) -> Hashable:
    """Return the key of a pod that is equivalent to no other."""
    return ("alone", pod.uid)


def _has_condition(tree: Tree) -> bool:
    return any(c.get("type") == "PodScheduled" for c in (tree.get("status") or {}).get("conditions") or ())
