"""What changed, for those who keep results per node: each reads on from where he was the last time."""

from __future__ import annotations


class ChangeJournal:
    """Which nodes changed, in order; readers keep their place in it."""

    __slots__ = ("_dropped", "_entries", "_limit")

    def __init__(self) -> None:
        self._entries: list[int] = []
        self._dropped = 0
        self._limit = 4096

    @property
    def end(self) -> int:
        """The place after the last entry."""
        return self._dropped + len(self._entries)

    def append(self, node: int, nodes: int) -> None:
        """A node changed; ``nodes`` is how many there are."""
        entries = self._entries
        entries.append(node)
        if len(entries) > self._limit + 2 * nodes:
            # A reader who is further behind looks at every node again, which costs him no more.
            keep = len(entries) // 2
            self._dropped += len(entries) - keep
            del entries[: len(entries) - keep]

    def mark_all_changed(self) -> None:
        """Everything changed."""
        self._dropped = self.end + 1
        self._entries.clear()

    def since(self, position: int) -> list[int] | None:
        """Nodes that changed after ``place``, or ``None`` if all must be looked at again."""
        if position < self._dropped:
            return None
        return self._entries[position - self._dropped :]
