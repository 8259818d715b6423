"""Search for a node on which claims of one shape fit, with the verdicts of all nodes cached as bit masks.

A node is *open* for a shape unless a search failed there; a change to the node opens it again. Finding the next node
that fits means searching the open nodes in order, and closing those that do not fit or whose search reached the step
limit (the limit is deterministic, so another search of the same state would reach it again). A shape that fits nowhere
is therefore refused without a search until something changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from allotment.engine.cluster.inventory import Inventory
from allotment.engine.cluster.layout import NodeView
from allotment.engine.search.verdict import NoFit, Undecided, Verdict
from allotment.model.resource import AllocationResult


@dataclass(frozen=True, slots=True)
class Placed:
    """The claims fit on this node. The next search may start at ``index + 1``."""

    node: str
    index: int
    results: tuple[AllocationResult, ...]


@dataclass(frozen=True, slots=True)
class NotPlaced:
    """No node was found on which the claims fit; ``nodes`` is the number of nodes."""

    nodes: int
    undecided: tuple[str, ...] = ()
    """Nodes whose search reached the step limit; the claims may fit there."""


class NodeVerdicts:
    """The verdicts of the nodes for one shape; masks have one bit per node index."""

    __slots__ = ("_inventory", "_journal_place", "_open", "_undecided", "_verdict_of", "_verdicts")

    def __init__(self, inventory: Inventory, verdict_of: Callable[[NodeView], Verdict]) -> None:
        self._inventory = inventory
        self._verdict_of = verdict_of
        self._open = 0
        self._undecided = 0
        self._verdicts: list[Verdict | None] = []
        self._journal_place = -1

    def first(self, start: int, among: int) -> tuple[int, Verdict] | None:
        """The first node index, from ``start`` with wrap-around, with a solution or a fatal error, and that verdict.

        ``among`` is a mask of node indexes. ``None`` if no node fits or is fatal.
        """
        self._catch_up()
        count = len(self._verdicts)
        if not count:
            return None
        start %= count
        ahead = self._open & among
        behind = ahead & ((1 << start) - 1)
        ahead ^= behind
        for mask in (ahead >> start << start, behind):
            while mask:
                lowest = mask & -mask
                index = lowest.bit_length() - 1
                verdict = self._verdicts[index]
                if verdict is None:
                    verdict = self._evaluate(index)
                if not isinstance(verdict, NoFit | Undecided):
                    return index, verdict
                self._open ^= lowest
                mask ^= lowest
        return None

    def undecided(self, among: int) -> tuple[str, ...]:
        """The names of the nodes in ``among`` whose search reached the step limit."""
        found: list[str] = []
        mask = self._undecided & among
        while mask:
            lowest = mask & -mask
            mask ^= lowest
            node = self._inventory.node_at(lowest.bit_length() - 1)
            assert node is not None
            found.append(node)
        return tuple(found)

    def _evaluate(self, index: int) -> Verdict:
        node = self._inventory.node_at(index)
        verdict = NoFit(False) if node is None else self._verdict_of(self._inventory.view(node))
        self._verdicts[index] = verdict
        if isinstance(verdict, Undecided):
            self._undecided |= 1 << index
        return verdict

    def _catch_up(self) -> None:
        """Open the nodes that changed since the last call."""
        journal = self._inventory.journal
        if journal.end == self._journal_place:
            return
        changed = journal.since(self._journal_place)
        self._journal_place = journal.end
        count = self._inventory.index_count
        if changed is None:
            self._open = (1 << count) - 1
            self._undecided = 0
            self._verdicts = [None] * count
            return
        if len(self._verdicts) < count:
            self._verdicts.extend([None] * (count - len(self._verdicts)))
        for index in set(changed) if len(changed) > 1 else changed:
            self._open |= 1 << index
            self._undecided &= ~(1 << index)
            self._verdicts[index] = None
