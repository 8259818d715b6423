"""What the cluster tells of pods and claims, and what follows for who waits and for what is taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import Item
from allotment.cluster.clock import Clock
from allotment.model.meta import ObjectKey
from allotment.model.trees import Tree
from allotment.node_fit.assigned_pod import resident_of
from allotment.node_fit.nodes import Machines
from allotment.node_fit.pod_requirements import Demands
from allotment.scheduler.binding.binding_conditions import Readying
from allotment.scheduler.claim_ledger import KnownClaim, Ledger
from allotment.scheduler.cluster_events import Happening
from allotment.scheduler.coexistence.monitor import Watching
from allotment.scheduler.coexistence.other_schedulers import Rivals
from allotment.scheduler.pending_events import News
from allotment.scheduler.pending_pods import Waiting
from allotment.scheduler.pods import WaitingPod
from allotment.scheduler.queue import Queue

_EVERYBODY_IS: Final = "default-scheduler"


class Following:
    """Follows pods and claims. ``name``: of this scheduler. ``assumed``: pods on their way to a node."""

    def __init__(
        self, name: str, machines: Machines, ledger: Ledger, queue: Queue, waiting: Waiting,
        assumed: Mapping[str, WaitingPod], readying: Readying, watching: Watching, rivals: Rivals,
        demands: Demands, news: News, clock: Clock,
    ) -> None:  # fmt: skip
        self._name = name
        self._machines = machines
        self._ledger = ledger
        self._queue = queue
        self._waiting = waiting
        self._assumed = assumed
        self._readying = readying
        self._watching = watching
        self._rivals = rivals
        self._demands = demands
        self._news = news
        self._clock = clock

    def follow(self, claims: Cache[Any], pods: Cache[Any]) -> list[Callable[[], None]]:
        """Begin to follow; returns what ends it. Claims come first, so that pods find them known."""
        return [claims.on_change(self._claim_changed), pods.on_change(self._pod_changed)]

    # --- claims ------------------------------------------------------------------------------------------------------

    def _claim_changed(self, old: Item[Tree] | None, new: Item[Tree] | None) -> None:
        item = new or old
        if item is None:
            return
        key = ObjectKey(item.namespace, item.name)
        known = self._ledger.known.get(key)
        if new is None:
            if self._ledger.remove(key) or (known is not None and known.is_extended):
                self._freed(known)
            self._watching.claim_changed(known, None)
        else:
            news = self._ledger.put(new.tree)
            claim = self._ledger.known[key]
            self._watching.claim_changed(known, claim)
            if claim.allocation is not None and (known is None or known.allocation is None):
                self._news.happened(Happening.CLAIM_ALLOCATED)
            if news == "freed":
                self._freed(known)
            self._readying.changed(key)
        self._waiting.claim_changed(key)

    def _freed(self, claim: KnownClaim | None) -> None:
        """Devices are free. Where others are at work as well they have their turn first: two must not grab at once."""
        seconds = self._rivals.seconds()
        if not seconds or claim is None or claim.allocation is None:
            self._news.happened(Happening.CLAIM_FREED)
            return
        key = self._ledger.linger(claim)

        def let_go() -> None:
            self._ledger.let_go(key)
            self._news.happened(Happening.CLAIM_FREED)

        self._clock.later(seconds, let_go)

    # --- pods --------------------------------------------------------------------------------------------------------

    def _pod_changed(self, old: Item[Tree] | None, new: Item[Tree] | None) -> None:
        self._watching.pod_changed(old, new)
        if new is None:
            if old is not None:
                self._pod_gone(old)
            return
        if new.status.get("phase") in ("Succeeded", "Failed"):
            self._pod_gone(new)
        elif node := new.spec.get("nodeName"):
            self._pod_placed(new, node)
        elif new.uid in self._assumed or new.spec.get("schedulerName", _EVERYBODY_IS) != self._name:
            return
        elif new.deleting:
            self._waiting.leave(new.uid)
        else:
            self._pod_waits(old, new)

    def _pod_placed(self, item: Item[Tree], node: str) -> None:
        self._waiting.leave(item.uid)
        before = self._machines.node_of(item.uid)
        if self._machines.seat(resident_of(item.tree, self._demands.of(item.spec, item.status)), node):
            self._news.happened(Happening.POD_PLACED)
            if before is not None:
                self._news.happened(Happening.POD_GONE)  # it asks for something else now, or goes

    def _pod_waits(self, old: Item[Tree] | None, new: Item[Tree]) -> None:
        pod = WaitingPod(new.tree, self._demands.of(new.spec))
        if old is not None and new.uid in self._queue and _same_wishes(old.tree, new.tree):
            self._waiting.nominated(pod, _nomination(old.tree))
        else:
            self._waiting.add(pod)

    def _pod_gone(self, item: Item[Tree]) -> None:
        self._waiting.gone(item.uid)
        if item.uid not in self._assumed and self._machines.unseat(item.uid) is not None:
            self._news.happened(Happening.POD_GONE)


def _same_wishes(old: Tree, new: Tree) -> bool:
    """Whether nothing changed that decides where a pod may go."""
    return (
        old["spec"] == new["spec"]
        and old["metadata"].get("labels") == new["metadata"].get("labels")
        and (old.get("status") or {}).get("resourceClaimStatuses")
        == (new.get("status") or {}).get("resourceClaimStatuses")
    )


def _nomination(tree: Tree) -> str:
    return str((tree.get("status") or {}).get("nominatedNodeName") or "")
