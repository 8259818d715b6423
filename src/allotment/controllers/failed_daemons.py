"""Back-off for failed daemon pods: the first is replaced immediately, later ones after a delay.

A pod that its node rejects fails as soon as it is bound. Without a back-off, controller, scheduler and node would
create and reject pods as fast as they can (Kubernetes uses the same delays).
"""

from __future__ import annotations

from random import Random
from typing import Final

from allotment.cluster.backoff import Backoff
from allotment.cluster.clock import Clock

_FIRST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 900.0


class FailedDaemonBackoff:
    """The back-off of each DaemonSet, by uid, on each node."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random
        self._waits: dict[str, dict[str, tuple[Backoff, float]]] = {}

    def seconds_left(self, uid: str, node: str) -> float:
        """Seconds until the failed pods of a node are replaced. At 0 the next back-off begins."""
        now = self._clock.seconds()
        nodes = self._waits.setdefault(uid, {})
        backoff, until = nodes.get(node) or (Backoff(self._random, first=_FIRST_SECONDS, longest=_LONGEST_SECONDS), now)
        if now < until:
            return until - now
        if now - until > 2 * _LONGEST_SECONDS:
            backoff.reset()
        nodes[node] = backoff, now + backoff.next()
        return 0.0

    def forget(self, uid: str) -> None:
        """Drop the state of a deleted DaemonSet."""
        self._waits.pop(uid, None)
