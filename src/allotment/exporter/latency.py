"""How long claims waited for their devices: each claim is counted once in its life."""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime
from itertools import accumulate
from typing import Final

from allotment.exporter.classes import class_of
from allotment.exporter.definitions import LATENCY
from allotment.exporter.metric import Distribution, Family
from allotment.model.generated_claims import POD_CLAIM_NAME
from allotment.model.resource import ResourceClaim

#: Seconds. Times in objects are whole seconds, so that there is nothing finer to tell.
BOUNDS: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)


class Latencies:
    """Waits by class and origin."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], list[int]] = {}
        self._sums: dict[tuple[str, str], float] = {}
        self._seen: set[str] = set()

    def see(self, claim: ResourceClaim, before: bool = False) -> None:
        """Count a claim, if it has devices and was not counted before.

        ``before``: what was there when somebody began to look is passed over. A counter that begins with it would look,
        in a rate, like a burst of allocations.
        """
        allocation, its = claim.status.allocation, claim.metadata
        if allocation is None or not allocation.allocation_timestamp or not its.creation_timestamp:
            return
        if its.uid in self._seen:
            return
        self._seen.add(its.uid)
        if before:
            return
        at = datetime.fromisoformat(allocation.allocation_timestamp)
        waited = max((at - datetime.fromisoformat(its.creation_timestamp)).total_seconds(), 0.0)
        labels = class_of(claim), "template" if POD_CLAIM_NAME in its.annotations else "user"
        counts = self._counts.setdefault(labels, [0] * (len(BOUNDS) + 1))
        counts[bisect_left(BOUNDS, waited)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + waited

    def forget(self, uid: str) -> None:
        """The claim is gone, and will not come again."""
        self._seen.discard(uid)

    def family(self) -> Family:
        """The waits so far."""
        found = []
        for labels, counts in sorted(self._counts.items()):
            below = tuple(accumulate(counts))
            found.append(Distribution(labels, BOUNDS, below[:-1], below[-1], self._sums[labels]))
        return Family(LATENCY, found)
