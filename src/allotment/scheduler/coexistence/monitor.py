"""What other schedulers do with devices, as it is seen, and what follows for decisions of ours.

An allocation that somebody else wrote makes them a rival (see `rivals`), and may contest a claim of ours: one that
still settles steps back by itself (see `settling`), and the pod of one that has been bound gives way (see `yielding`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import Item
from allotment.cluster.clock import Clock
from allotment.engine.cluster.inventory import Inventory
from allotment.model.meta import ObjectKey
from allotment.model.trees import Tree
from allotment.scheduler.claim_ledger import KnownClaim, Ledger
from allotment.scheduler.coexistence.contention import Contest, contests
from allotment.scheduler.coexistence.other_schedulers import LATELY, Rivals
from allotment.scheduler.coexistence.stabilization import Settling

GiveWay = Callable[[Item[Tree], KnownClaim, str], None]

_EVERYBODY_IS: Final = "default-scheduler"


class Watching:
    """Follows claims and pods for the sake of devices that two schedulers want."""

    def __init__(
        self, ledger: Ledger, inventory: Inventory, pods: Cache[Any], clock: Clock, name: str, rivals: Rivals,
        settling: Settling, *, node_of: Callable[[str], str | None], give_way: GiveWay,
    ) -> None:  # fmt: skip
        self._ledger = ledger
        self._inventory = inventory
        self._pods = pods
        self._clock = clock
        self._name = name
        self._rivals = rivals
        self._settling = settling
        self._node_of = node_of
        self._give_way = give_way
        self._begun = False

    def begin(self) -> None:
        """All that was there has been told: look whether anything was contested while nobody looked."""
        self._begun = True
        for key in [key for key, claim in self._ledger.known.items() if claim.allocation and self._is_ours(claim)]:
            self.look(key)

    def pod_changed(self, old: Item[Tree] | None, new: Item[Tree] | None) -> None:
        """A pod came, changed or went."""
        self._rivals.pod_changed(old, new)

    def claim_changed(self, before: KnownClaim | None, now: KnownClaim | None) -> None:
        """A claim came, changed or went."""
        had = before is not None and before.allocation is not None
        if now is None or now.allocation is None:
            if before is not None and had:
                self._rivals.freed(before.users)
            return
        if had or now.key in self._ledger.in_flight:
            return
        if not self._is_ours(now):
            self._rivals.allocated(now, 0.0 if self._begun else self._age(now))
        if self._begun:
            self.look(now.key)

    def look(self, key: ObjectKey) -> None:
        """See whether a claim is contested, and to it that something is done about it."""
        claim = self._ledger.known.get(key)
        if claim is None or claim.allocation is None:
            return
        found = contests(self._inventory, key, self._node(claim))
        for contest in found:
            if self._settling.notice(key) or self._settling.notice(contest.holder):
                continue
            if not self._yield(contest.holder, key, contest):
                self._yield(key, contest.holder, contest)
            if not contest.whole:
                break  # that may have been enough

    def _yield(self, claim: ObjectKey, other: ObjectKey, contest: Contest) -> bool:
        """Have the pods of a claim of ours give way; whether there are any."""
        known = self._ledger.known.get(claim)
        if known is None:
            return False
        pods = [pod for pod in self._users(known) if self._is_mine(pod) and self._node_of(pod.uid) is not None]
        for pod in pods:
            self._give_way(pod, known, f"device {contest.device} of claim {claim} was given to claim {other} as well")
        return bool(pods)

    def _users(self, claim: KnownClaim) -> Iterable[Item[Tree]]:
        for user in claim.users:
            item = self._pods.item(claim.key.namespace, user["name"])
            if item is not None and item.uid == user["uid"]:
                yield item

    def _is_mine(self, pod: Item[Tree]) -> bool:
        return bool(pod.spec.get("schedulerName", _EVERYBODY_IS) == self._name)

    def _is_ours(self, claim: KnownClaim) -> bool:
        """Whether all its users are pods of this scheduler, which then (or one before it) allocated it."""
        users = list(self._users(claim))
        return len(users) == len(claim.users) > 0 and all(map(self._is_mine, users))

    def _node(self, claim: KnownClaim) -> str:
        """Where a claim is used, for what only that node can tell."""
        return claim.only_node() or next((n for pod in self._users(claim) if (n := self._node_of(pod.uid))), "")

    def _age(self, claim: KnownClaim) -> float:
        """Seconds since its allocation; one that does not say is old."""
        stamp = (claim.allocation or {}).get("allocationTimestamp")
        return max(0.001, -self._clock.left(stamp)) if stamp else LATELY
