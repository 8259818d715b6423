"""Watches pods and claims, and updates the queue, the claim ledger and the nodes accordingly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.clock import Clock
from allotment.model.meta import ObjectKey
from allotment.model.trees import Tree
from allotment.node_fit.assigned_pod import to_assigned_pod
from allotment.node_fit.nodes import NodeCache
from allotment.node_fit.pod_requirements import PodRequirementsCache
from allotment.scheduler.binding.binding_conditions import BindingConditionWaiter
from allotment.scheduler.claim_ledger import CachedClaim, ClaimChange, ClaimLedger
from allotment.scheduler.cluster_events import ClusterEvent
from allotment.scheduler.coexistence.monitor import CoexistenceMonitor
from allotment.scheduler.coexistence.other_schedulers import OtherSchedulers
from allotment.scheduler.pending_events import PendingEvents
from allotment.scheduler.pending_pods import PendingPods
from allotment.scheduler.pods import QueuedPod, claim_keys
from allotment.scheduler.queue import SchedulingQueue

_DEFAULT_SCHEDULER: Final = "default-scheduler"


class PodClaimWatch:
    """Follows pods and claims. ``name``: of this scheduler. ``assumed``: pods that are being bound."""

    def __init__(
        self,
        name: str,
        machines: NodeCache,
        ledger: ClaimLedger,
        queue: SchedulingQueue,
        pending_pods: PendingPods,
        assumed: Mapping[str, QueuedPod],
        readiness: BindingConditionWaiter,
        monitor: CoexistenceMonitor,
        others: OtherSchedulers,
        demands: PodRequirementsCache,
        events: PendingEvents,
        clock: Clock,
    ) -> None:
        self._name = name
        self._machines = machines
        self._ledger = ledger
        self._queue = queue
        self._pending_pods = pending_pods
        self._assumed = assumed
        self._readiness = readiness
        self._monitor = monitor
        self._others = others
        self._demands = demands
        self._events = events
        self._clock = clock

    def subscribe(self, claims: Cache[Any], pods: Cache[Any]) -> list[Callable[[], None]]:
        """Subscribe to the caches, claims first so that pods find them; return the functions that unsubscribe."""
        return [claims.on_change(self._claim_changed), pods.on_change(self._pod_changed)]

    # --- claims ------------------------------------------------------------------------------------------------------

    def _claim_changed(self, old: CachedItem[Tree] | None, new: CachedItem[Tree] | None) -> None:
        item = new or old
        if item is None:
            return
        key = ObjectKey(item.namespace, item.name)
        known = self._ledger.known.get(key)
        change: ClaimChange | None = None
        if new is None:
            if self._ledger.remove(key) or (known is not None and known.is_extended):
                self._devices_freed(known)
            self._monitor.claim_changed(known, None)
        else:
            change = self._ledger.put(new.tree)
            claim = self._ledger.known[key]
            self._monitor.claim_changed(known, claim)
            if claim.allocation is not None and (known is None or known.allocation is None):
                self._events.add(ClusterEvent.CLAIM_ALLOCATED)
            if change == "freed":
                self._devices_freed(known)
            self._readiness.changed(key)
        self._pending_pods.claim_changed(key, change)

    def _devices_freed(self, claim: CachedClaim | None) -> None:
        """Report freed devices. Other active schedulers get the settling period first, so that both do not allocate
        them.
        """
        seconds = self._others.settling_seconds()
        if not seconds or claim is None or claim.allocation is None:
            self._events.add(ClusterEvent.CLAIM_FREED)
            return
        key = self._ledger.keep_booked(claim)

        def let_go() -> None:
            self._ledger.release(key)
            self._events.add(ClusterEvent.CLAIM_FREED)

        self._clock.later(seconds, let_go)

    # --- pods --------------------------------------------------------------------------------------------------------

    def _pod_changed(self, old: CachedItem[Tree] | None, new: CachedItem[Tree] | None) -> None:
        self._monitor.pod_changed(old, new)
        if new is None:
            if old is not None:
                self._pod_gone(old)
            return
        if new.status.get("phase") in ("Succeeded", "Failed"):
            self._pod_gone(new)
        elif node := new.spec.get("nodeName"):
            self._pod_placed(new, node)
        elif new.uid in self._assumed or new.spec.get("schedulerName", _DEFAULT_SCHEDULER) != self._name:
            return
        elif new.deleting:
            self._pending_pods.remove(new.uid)
        else:
            self._pod_waits(old, new)

    def _pod_placed(self, item: CachedItem[Tree], node: str) -> None:
        self._pending_pods.remove(item.uid)
        before = self._machines.node_of(item.uid)
        if self._machines.assign_pod(to_assigned_pod(item.tree, self._demands.of(item.spec, item.status)), node):
            self._events.add(ClusterEvent.POD_PLACED)
            if before is None:
                self._pending_pods.member_placed(item.tree)
            if before is not None:  # its requests changed, or it is being deleted
                self._events.add(self._departure(item) if item.deleting else ClusterEvent.POD_GONE)

    def _pod_waits(self, old: CachedItem[Tree] | None, new: CachedItem[Tree]) -> None:
        pod = QueuedPod(new.tree, self._demands.of(new.spec))
        if old is not None and new.uid in self._queue and _same_requirements(old.tree, new.tree):
            self._pending_pods.nomination_changed(pod, _nomination(old.tree))
        else:
            self._pending_pods.add(pod)

    def _pod_gone(self, item: CachedItem[Tree]) -> None:
        self._pending_pods.deleted(item.uid)
        if item.uid not in self._assumed and self._machines.remove_pod(item.uid) is not None:
            self._events.add(self._departure(item))

    def _departure(self, item: CachedItem[Tree]) -> ClusterEvent:
        """Return the event for a pod that leaves its node."""
        frees = self._ledger.frees_claims(item.uid, claim_keys(item.tree))
        return ClusterEvent.CLAIM_USER_GONE if frees else ClusterEvent.POD_GONE


def _same_requirements(old: Tree, new: Tree) -> bool:
    """Whether nothing changed that affects where a pod can be scheduled."""
    return (
        old["spec"] == new["spec"]
        and old["metadata"].get("labels") == new["metadata"].get("labels")
        and (old.get("status") or {}).get("resourceClaimStatuses")
        == (new.get("status") or {}).get("resourceClaimStatuses")
    )


def _nomination(tree: Tree) -> str:
    return str((tree.get("status") or {}).get("nominatedNodeName") or "")
