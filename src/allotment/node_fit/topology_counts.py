"""Numbers of matching pods on each node, updated as pods are assigned and removed.

Topology spread and pod affinity need them for few selectors and every pod; counting again would visit all pods each
time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from allotment.node_fit.assigned_pod import AssignedPod

PodPredicate = Callable[[AssignedPod], bool]


class PodCounts:
    """The number of matching pods by node."""

    __slots__ = ("by_node", "matches")

    def __init__(self, matches: PodPredicate) -> None:
        self.matches = matches
        self.by_node: dict[str, int] = {}

    def add(self, pod: AssignedPod, node: str, delta: int) -> None:
        """Count a pod that was assigned (``delta`` 1) or removed (-1), if it matches."""
        if not self.matches(pod):
            return
        count = self.by_node.get(node, 0) + delta
        if count:
            self.by_node[node] = count
        else:
            self.by_node.pop(node, None)


class TopologyCounts:
    """The counts of the most recently used selectors."""

    _KEPT = 64

    def __init__(self) -> None:
        self._known: dict[object, PodCounts] = {}

    def of(
        self, key: object, matches: PodPredicate, assigned_pods: Callable[[], Iterable[tuple[AssignedPod, str]]]
    ) -> PodCounts:
        """Return the counts of a key. A new key counts the ``assigned_pods`` that match."""
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
        """Update all counts for a pod that was assigned (``delta`` 1) or removed (-1)."""
        for pod_counts in self._known.values():
            pod_counts.add(pod, node, delta)
