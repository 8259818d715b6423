"""A journal of changed nodes for caches per node, each of which reads from its own position."""

from __future__ import annotations


class ChangeJournal:
    """The indexes of changed nodes in order; readers keep their own position."""

    __slots__ = ("_dropped", "_entries", "_limit")

    def __init__(self) -> None:
        self._entries: list[int] = []
        self._dropped = 0
        self._limit = 4096

    @property
    def end(self) -> int:
        """The position after the last entry."""
        return self._dropped + len(self._entries)

    def append(self, node: int, nodes: int) -> None:
        """Record a change of a node; ``nodes`` is the number of nodes, which limits the length of the journal."""
        entries = self._entries
        entries.append(node)
        if len(entries) > self._limit + 2 * nodes:
            # A reader that is further behind evaluates every node again, which costs no more than reading the entries.
            keep = len(entries) // 2
            self._dropped += len(entries) - keep
            del entries[: len(entries) - keep]

    def mark_all_changed(self) -> None:
        """Record a change of all nodes."""
        self._dropped = self.end + 1
        self._entries.clear()

    def since(self, position: int) -> list[int] | None:
        """Nodes that changed after ``position``, or ``None`` if all nodes must be evaluated again."""
        if position < self._dropped:
            return None
        return self._entries[position - self._dropped :]
