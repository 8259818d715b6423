"""How many pods of a certain kind are on each node, counted as pods come and go.

Spread and affinity ask this for a handful of selectors and for every pod; counting afresh would cost a walk over all
pods each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from allotment.node_fit.assigned_pod import Resident

Counts = Callable[[Resident], bool]


class Tally:
    """Pods that count, by node."""

    __slots__ = ("by_node", "counts")

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.by_node: dict[str, int] = {}

    def add(self, pod: Resident, node: str, by: int) -> None:
        """A pod came (1) or went (-1)."""
        if not self.counts(pod):
            return
        left = self.by_node.get(node, 0) + by
        if left:
            self.by_node[node] = left
        else:
            self.by_node.pop(node, None)


class Tallies:
    """The tallies that were asked for last."""

    _KEPT = 64

    def __init__(self) -> None:
        self._known: dict[object, Tally] = {}

    def of(self, key: object, counts: Counts, everyone: Callable[[], Iterable[tuple[Resident, str]]]) -> Tally:
        """The tally of a key; ``counts`` and ``everyone`` (pods with their nodes) are used when it is new."""
        found = self._known.pop(key, None)
        if found is None:
            if len(self._known) >= self._KEPT:
                del self._known[next(iter(self._known))]
            found = Tally(counts)
            for pod, node in everyone():
                found.add(pod, node, 1)
        self._known[key] = found  # the most recent is last
        return found

    def change(self, pod: Resident, node: str, by: int) -> None:
        """A pod came or went."""
        for tally in self._known.values():
            tally.add(pod, node, by)
