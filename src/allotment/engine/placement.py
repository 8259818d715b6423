"""Where a shape fits: what is known of every node, kept as bit masks and mended by increments.

A node is *open* for a shape unless it was searched in vain; a change to a node opens it again. Finding the next node
that fits means to look at the open ones in turn, and to close those that do not fit and those whose search was given up
(its step limit is deterministic, so another search of the same state would be given up, too). So a shape that fits
nowhere is refused without looking at any node, until something changes.
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
    """The claims fit on this node. The next search may start at ``place + 1``."""

    node: str
    index: int
    results: tuple[AllocationResult, ...]


@dataclass(frozen=True, slots=True)
class NotPlaced:
    """No node was found on which the claims fit; ``nodes`` is how many there are."""

    nodes: int
    undecided: tuple[str, ...] = ()
    """Nodes whose search was given up. If there are any, the claims may fit there all the same."""


class NodeVerdicts:
    """What is known of the nodes for one shape; one bit per place."""

    __slots__ = ("_inventory", "_journal_place", "_open", "_undecided", "_verdict_of", "_verdicts")

    def __init__(self, inventory: Inventory, verdict_of: Callable[[NodeView], Verdict]) -> None:
        self._inventory = inventory
        self._verdict_of = verdict_of
        self._open = 0
        self._undecided = 0
        self._verdicts: list[Verdict | None] = []
        self._journal_place = -1

    def first(self, start: int, among: int) -> tuple[int, Verdict] | None:
        """The first place, from ``start`` on and around, with a solution or a fatal error, and that verdict.

        ``None`` if each node refuses the shape or its search was given up.
        """
        self._catch_up()
        places = len(self._verdicts)
        if not places:
            return None
        start %= places
        ahead = self._open & among
        behind = ahead & ((1 << start) - 1)
        ahead ^= behind
        for mask in (ahead >> start << start, behind):
            while mask:
                lowest = mask & -mask
                place = lowest.bit_length() - 1
                verdict = self._verdicts[place]
                if verdict is None:
                    verdict = self._evaluate(place)
                if not isinstance(verdict, NoFit | Undecided):
                    return place, verdict
                self._open ^= lowest
                mask ^= lowest
        return None

    def undecided(self, among: int) -> tuple[str, ...]:
        """The nodes at these places whose search was given up."""
        found: list[str] = []
        mask = self._undecided & among
        while mask:
            lowest = mask & -mask
            mask ^= lowest
            node = self._inventory.node_at(lowest.bit_length() - 1)
            assert node is not None
            found.append(node)
        return tuple(found)

    def _evaluate(self, place: int) -> Verdict:
        node = self._inventory.node_at(place)
        verdict = NoFit(False) if node is None else self._verdict_of(self._inventory.view(node))
        self._verdicts[place] = verdict
        if isinstance(verdict, Undecided):
            self._undecided |= 1 << place
        return verdict

    def _catch_up(self) -> None:
        """Open the nodes that have changed since the last time."""
        journal = self._inventory.journal
        if journal.end == self._journal_place:
            return
        changed = journal.since(self._journal_place)
        self._journal_place = journal.end
        places = self._inventory.index_count
        if changed is None:
            self._open = (1 << places) - 1
            self._undecided = 0
            self._verdicts = [None] * places
            return
        if len(self._verdicts) < places:
            self._verdicts.extend([None] * (places - len(self._verdicts)))
        for place in set(changed) if len(changed) > 1 else changed:
            self._open |= 1 << place
            self._undecided &= ~(1 << place)
            self._verdicts[place] = None
