"""Whether other schedulers give devices away in this cluster, and how long a decision of ours must settle beside them.

A rival decides on what it has seen, and writes a moment later. What it writes before us we see; what it writes after
us, without having seen us, it must write soon: so long we wait. Nobody says how long that is. It is estimated from what
rivals do in public: between the allocation of a pod's claims and its binding there is one request, as there are a few
between the decision and the allocation. A rival that is slowed down (client-side limits: 50 requests a second unless
an administrator raised them) shows it there.

Where no pod waits for another scheduler that may want devices, and none was given away by others lately, there is no
rival, and nothing to wait for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from allotment.cluster.cached_item import Item
from allotment.cluster.clock import Clock
from allotment.model.trees import Tree
from allotment.scheduler.claim_ledger import KnownClaim

#: Seconds after which a scheduler that did nothing is forgotten.
LATELY: Final = 300.0
#: A rival that is not slowed down takes milliseconds. But its view of the cluster lags, where processors are scarce by
#: more than a second, and nobody sees by how much.
SHORTEST: Final = 2.0
LONGEST: Final = 30.0
#: A rival may take so many times as long from deciding to allocating as from allocating to binding: two requests, or
#: three, and a queue that grows meanwhile.
_TIMES: Final = 4.0


class Rivals:
    """Other schedulers, as their pods and claims show them. ``fixed``: settle for so many seconds whatever they do."""

    def __init__(self, clock: Clock, name: str, fixed: float | None = None) -> None:
        self._clock = clock
        self._name = name
        self._fixed = fixed
        self._waiting: set[str] = set()
        """Pods (uid) of others that may want devices and have no node."""
        self._last = -LATELY
        """When one of them was last heard of."""
        self._open: dict[str, float] = {}
        """Pods (uid) of others that have devices and no node yet, and since when."""
        self._gaps: deque[tuple[float, float]] = deque()
        """When a pod of others was bound, and how long after its allocation; each longer than all after it."""

    def seconds(self) -> float:
        """How long a decision of now must settle."""
        if self._fixed is not None:
            return self._fixed
        now = self._clock.seconds()
        if not self._waiting and now - self._last >= LATELY:
            return 0.0
        while self._gaps and now - self._gaps[0][0] >= LATELY:
            self._gaps.popleft()
        slowest = self._gaps[0][1] if self._gaps else 0.0
        slowest = max(slowest, max((now - since for since in self._open.values()), default=0.0))
        return min(max(SHORTEST, _TIMES * slowest), LONGEST)

    def pod_changed(self, old: Item[Tree] | None, new: Item[Tree] | None) -> None:
        """A pod came, changed or went."""
        item = new or old
        assert item is not None
        if item.spec.get("schedulerName") == self._name:
            return
        there = new is not None and new.status.get("phase") not in ("Succeeded", "Failed")
        bound = there and bool(item.spec.get("nodeName"))
        if there and not bound:
            if item.uid not in self._waiting and _may_want_devices(item.spec):
                self._waiting.add(item.uid)
        elif item.uid in self._waiting:
            self._waiting.discard(item.uid)
            self._last = self._clock.seconds()
        since = self._open.pop(item.uid, None) if bound or not there else None
        if since is not None and bound:
            self._took(self._clock.seconds() - since)

    def allocated(self, claim: KnownClaim, age: float = 0.0) -> None:
        """Somebody else gave a claim its devices, ``age`` seconds ago."""
        now = self._clock.seconds()
        self._last = max(self._last, now - age)
        if age or _gets_ready(claim.allocation or {}):
            return  # the pod waits for devices, and not for its scheduler
        for uid in _pods(claim.users):
            if uid in self._waiting:
                self._open.setdefault(uid, now)

    def freed(self, users: Iterable[Tree]) -> None:
        """A claim lost its devices, or is gone; ``users``: those that it had."""
        for uid in _pods(users):
            self._open.pop(uid, None)

    def _took(self, gap: float) -> None:
        while self._gaps and self._gaps[-1][1] <= gap:
            self._gaps.pop()
        self._gaps.append((self._clock.seconds(), gap))


def _pods(users: Iterable[Tree]) -> list[str]:
    return [user["uid"] for user in users if user.get("resource") == "pods"]


def _may_want_devices(spec: Tree) -> bool:
    """By claims, or by an extended resource, which a class may serve."""
    if spec.get("resourceClaims"):
        return True
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    return any("/" in name for c in containers for name in (c.get("resources") or {}).get("requests") or ())


def _gets_ready(allocation: Tree) -> bool:
    results = (allocation.get("devices") or {}).get("results") or ()
    return any(result.get("bindingConditions") for result in results)
