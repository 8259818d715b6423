"""A histogram of the time from creation to allocation of claims; each claim is counted once."""

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

#: Seconds. Timestamps in objects have a resolution of one second.
BOUNDS: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)


class Latencies:
    """Latencies by class and origin."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], list[int]] = {}
        self._sums: dict[tuple[str, str], float] = {}
        self._seen: set[str] = set()

    def observe(self, claim: ResourceClaim, preexisting: bool = False) -> None:
        """Count a claim that is allocated and was not counted before.

        ``preexisting``: do not count a claim that existed when the exporter started: a counter that begins with such
        claims would look like a burst of allocations in a rate.
        """
        allocation, metadata = claim.status.allocation, claim.metadata
        if allocation is None or not allocation.allocation_timestamp or not metadata.creation_timestamp:
            return
        if metadata.uid in self._seen:
            return
        self._seen.add(metadata.uid)
        if preexisting:
            return
        at = datetime.fromisoformat(allocation.allocation_timestamp)
        waited = max((at - datetime.fromisoformat(metadata.creation_timestamp)).total_seconds(), 0.0)
        labels = class_of(claim), "template" if POD_CLAIM_NAME in metadata.annotations else "user"
        counts = self._counts.setdefault(labels, [0] * (len(BOUNDS) + 1))
        counts[bisect_left(BOUNDS, waited)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + waited

    def forget(self, uid: str) -> None:
        """Forget a deleted claim."""
        self._seen.discard(uid)

    def family(self) -> Family:
        """Return the histogram."""
        found = []
        for labels, counts in sorted(self._counts.items()):
            cumulative = tuple(accumulate(counts))
            found.append(Distribution(labels, BOUNDS, cumulative[:-1], cumulative[-1], self._sums[labels]))
        return Family(LATENCY, found)
