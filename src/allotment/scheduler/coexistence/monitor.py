"""Monitors the allocations of other schedulers and resolves contests with claims of this one.

An allocation that another scheduler wrote marks it as active (see `other_schedulers`) and may contest a claim of this
one: a decision that still settles reverts itself (see `stabilization`), and a pod that has been bound is evicted if
possible (see `eviction`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.clock import Clock
from allotment.engine.cluster.inventory import Inventory
from allotment.model.meta import ObjectKey
from allotment.model.trees import Tree
from allotment.scheduler.claim_ledger import CachedClaim, ClaimLedger
from allotment.scheduler.coexistence.contention import Contest, contest_text, contests
from allotment.scheduler.coexistence.other_schedulers import ACTIVITY_WINDOW, OtherSchedulers
from allotment.scheduler.coexistence.stabilization import SettlingPeriod

Evict = Callable[[CachedItem[Tree], CachedClaim, str], None]

_DEFAULT_SCHEDULER: Final = "default-scheduler"


class CoexistenceMonitor:
    """Follows claims and pods to find devices that two schedulers allocated."""

    def __init__(
        self,
        ledger: ClaimLedger,
        inventory: Inventory,
        pods: Cache[Any],
        clock: Clock,
        name: str,
        others: OtherSchedulers,
        settling: SettlingPeriod,
        *,
        node_of: Callable[[str], str | None],
        evict: Evict,
    ) -> None:
        self._ledger = ledger
        self._inventory = inventory
        self._pods = pods
        self._clock = clock
        self._name = name
        self._others = others
        self._settling = settling
        self._node_of = node_of
        self._evict = evict
        self._started = False

    def start(self) -> None:
        """Check all claims once after the initial state is known: devices may have been contested before the start."""
        self._started = True
        for key in [key for key, claim in self._ledger.known.items() if claim.allocation and self._is_own_claim(claim)]:
            self.check(key)

    def pod_changed(self, old: CachedItem[Tree] | None, new: CachedItem[Tree] | None) -> None:
        """Process an added, changed or deleted pod."""
        self._others.pod_changed(old, new)

    def claim_changed(self, before: CachedClaim | None, now: CachedClaim | None) -> None:
        """Process an added, changed or deleted claim."""
        had = before is not None and before.allocation is not None
        if now is None or now.allocation is None:
            if before is not None and had:
                self._others.freed(before.users)
            return
        if had or now.key in self._ledger.in_flight:
            return
        if not self._is_own_claim(now):
            self._others.allocated(now, 0.0 if self._started else self._age(now))
        if self._started:
            self.check(now.key)

    def check(self, key: ObjectKey) -> None:
        """Check whether a claim is contested and start the resolution."""
        claim = self._ledger.known.get(key)
        if claim is None or claim.allocation is None:
            return
        found = contests(self._inventory, key, self._node(claim))
        for contest in found:
            if self._settling.notify(key) or self._settling.notify(contest.holder):
                continue
            if not self._evict_users(contest.holder, key, contest):
                self._evict_users(key, contest.holder, contest)
            if not contest.is_exclusive:
                break  # one eviction may be sufficient

    def _evict_users(self, claim: ObjectKey, other: ObjectKey, contest: Contest) -> bool:
        """Evict the pods of this scheduler that use a claim; return whether there are any."""
        known = self._ledger.known.get(claim)
        if known is None:
            return False
        pods = [pod for pod in self._users(known) if self._is_own_pod(pod) and self._node_of(pod.uid) is not None]
        for pod in pods:
            self._evict(pod, known, contest_text(contest.device, claim, other))
        return bool(pods)

    def _users(self, claim: CachedClaim) -> Iterable[CachedItem[Tree]]:
        for user in claim.users:
            item = self._pods.item(claim.key.namespace, user["name"])
            if item is not None and item.uid == user["uid"]:
                yield item

    def _is_own_pod(self, pod: CachedItem[Tree]) -> bool:
        return bool(pod.spec.get("schedulerName", _DEFAULT_SCHEDULER) == self._name)

    def _is_own_claim(self, claim: CachedClaim) -> bool:
        """Whether all its consumers are pods of this scheduler, so this scheduler or a predecessor allocated it."""
        users = list(self._users(claim))
        return len(users) == len(claim.users) > 0 and all(map(self._is_own_pod, users))

    def _node(self, claim: CachedClaim) -> str:
        """Return the node where a claim is used, for checks that depend on the node; empty if unknown."""
        return claim.only_node() or next((n for pod in self._users(claim) if (n := self._node_of(pod.uid))), "")

    def _age(self, claim: CachedClaim) -> float:
        """Return the seconds since its allocation; without a timestamp it counts as old."""
        stamp = (claim.allocation or {}).get("allocationTimestamp")
        return max(0.001, -self._clock.left(stamp)) if stamp else ACTIVITY_WINDOW
