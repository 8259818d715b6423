"""How many pods of a certain kind are on each node, counted as pods come and go.

Spread and affinity ask this for a handful of selectors and for every pod; counting afresh would cost a walk over all
pods each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from allotment.node_fit.assigned_pod import AssignedPod

PodPredicate = Callable[[AssignedPod], bool]


class PodCounts:
    """Pods that count, by node."""

    __slots__ = ("by_node", "matches")

    def __init__(self, matches: PodPredicate) -> None:
        self.matches = matches
        self.by_node: dict[str, int] = {}

    def add(self, pod: AssignedPod, node: str, delta: int) -> None:
        """A pod came (1) or went (-1)."""
        if not self.matches(pod):
            return
        count = self.by_node.get(node, 0) + delta
        if count:
            self.by_node[node] = count
        else:
            self.by_node.pop(node, None)


class TopologyCounts:
    """The tallies that were asked for last."""

    _KEPT = 64

    def __init__(self) -> None:
        self._known: dict[object, PodCounts] = {}

    def of(self, key: object, matches: PodPredicate, assigned_pods: Callable[[], Iterable[tuple[AssignedPod, str]]]) -> PodCounts:
        """The tally of a key; ``counts`` and ``everyone`` (pods with their nodes) are used when it is new."""
        counts_of_key = self._known.pop(key, None)
        if counts_of_key is None:
            if len(self._known) >= self._KEPT:
                del self._known[next(iter(self._known))]
            counts_of_key = PodCounts(matches)
            for pod, node in assigned_pods():
                counts_of_key.add(pod, node, 1)
        self._known[key] = counts_of_key  # the most recent is last
        return counts_of_key

    def update(self, pod: AssignedPod, node: str, delta: int) -> None:
        """A pod came or went."""
        for pod_counts in self._known.values():
            pod_counts.add(pod, node, delta)
