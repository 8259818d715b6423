"""Detects other schedulers that allocate devices, and estimates how long a decision must settle alongside them.

Another scheduler decides based on the state that it has seen, and writes shortly after. Writes that precede this
scheduler's own are visible; a later one that did not take it into account must follow soon, and the settling period
waits for it. The length of the period is estimated from observable behavior: between the allocation of a pod's claims
and its binding there is one request; between the decision and the allocation there are a few. Client-side limits (50
requests per second by default) slow down both.

If no pod that may want devices waits for another scheduler, and none was allocated devices recently, no other scheduler
is active and there is no settling period.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.clock import Clock
from allotment.model.trees import Tree
from allotment.scheduler.claim_ledger import CachedClaim

#: Seconds without activity after which another scheduler is considered inactive.
ACTIVITY_WINDOW: Final = 300.0
#: A scheduler that is not slowed down takes milliseconds. But its view of the cluster lags, by more than a second when
#: CPU is scarce, and the lag is not observable.
MIN_SETTLING: Final = 2.0
MAX_SETTLING: Final = 30.0
#: Assumed ratio of the time from decision to allocation to the time from allocation to binding: two or three requests,
#: and a queue that grows meanwhile.
_SAFETY_FACTOR: Final = 4.0


class OtherSchedulers:
    """The activity of other schedulers, derived from their pods and claims. ``fixed``: constant settling period in
    seconds.
    """

    def __init__(self, clock: Clock, name: str, fixed: float | None = None) -> None:
        self._clock = clock
        self._name = name
        self._fixed = fixed
        self._waiting: set[str] = set()
        """Uids of pods of other schedulers without a node that may want devices."""
        self._last_seen = -ACTIVITY_WINDOW
        """Time of the last activity."""
        self._open: dict[str, float] = {}
        """Pods (uid) of other schedulers with devices but no node, and since when."""
        self._gaps: deque[tuple[float, float]] = deque()
        """Times of bindings by other schedulers, and the seconds from allocation to binding; each longer than all after
        it.
        """

    def settling_seconds(self) -> float:
        """Return how long a decision made now must settle."""
        if self._fixed is not None:
            return self._fixed
        now = self._clock.seconds()
        if not self._waiting and now - self._last_seen >= ACTIVITY_WINDOW:
            return 0.0
        while self._gaps and now - self._gaps[0][0] >= ACTIVITY_WINDOW:
            self._gaps.popleft()
        slowest = self._gaps[0][1] if self._gaps else 0.0
        slowest = max(slowest, max((now - since for since in self._open.values()), default=0.0))
        return min(max(MIN_SETTLING, _SAFETY_FACTOR * slowest), MAX_SETTLING)

    def pod_changed(self, old: CachedItem[Tree] | None, new: CachedItem[Tree] | None) -> None:
        """Process an added, changed or deleted pod."""
        item = new or old
        assert item is not None
        if item.spec.get("schedulerName") == self._name:
            return
        is_active = new is not None and new.status.get("phase") not in ("Succeeded", "Failed")
        bound = is_active and bool(item.spec.get("nodeName"))
        if is_active and not bound:
            if item.uid not in self._waiting and _may_want_devices(item.spec):
                self._waiting.add(item.uid)
        elif item.uid in self._waiting:
            self._waiting.discard(item.uid)
            self._last_seen = self._clock.seconds()
        since = self._open.pop(item.uid, None) if bound or not is_active else None
        if since is not None and bound:
            self._record_gap(self._clock.seconds() - since)

    def allocated(self, claim: CachedClaim, age: float = 0.0) -> None:
        """Process a claim that another scheduler allocated ``age`` seconds ago."""
        now = self._clock.seconds()
        self._last_seen = max(self._last_seen, now - age)
        if age or _has_binding_conditions(claim.allocation or {}):
            return  # the pod waits for its devices, not for its scheduler
        for uid in _pods(claim.users):
            if uid in self._waiting:
                self._open.setdefault(uid, now)

    def freed(self, users: Iterable[Tree]) -> None:
        """Process a claim that was deallocated or deleted; ``users``: its consumers before."""
        for uid in _pods(users):
            self._open.pop(uid, None)

    def _record_gap(self, gap: float) -> None:
        while self._gaps and self._gaps[-1][1] <= gap:
            self._gaps.pop()
        self._gaps.append((self._clock.seconds(), gap))


def _pods(users: Iterable[Tree]) -> list[str]:
    return [user["uid"] for user in users if user.get("resource") == "pods"]


def _may_want_devices(spec: Tree) -> bool:
    """Whether a pod has claims or extended resources, which a DeviceClass may provide."""
    if spec.get("resourceClaims"):
        return True
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    return any("/" in name for c in containers for name in (c.get("resources") or {}).get("requests") or ())


def _has_binding_conditions(allocation: Tree) -> bool:
    results = (allocation.get("devices") or {}).get("results") or ()
    return any(result.get("bindingConditions") for result in results)
