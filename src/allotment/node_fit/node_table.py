"""For one shape of pods: which nodes would do, how good each is, and why not; mended where nodes have changed.

Thousands of equal pods on hundreds of nodes would otherwise mean to ask every node about every pod. A pod that is
placed changes one node, so that the next one costs one look, whatever the number of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from allotment.node_fit.filters import run_filters
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.nodes import CachedNode, NodeCache
from allotment.node_fit.pod_requirements import PodRequirements
from allotment.node_fit.scores import score


class NodeFitTable:
    """One bit, and one answer, for every place."""

    __slots__ = ("_journal_position", "_dra_resources", "_nodes", "by_score", "demand", "fits", "refusals", "scores")

    def __init__(self, requirements: PodRequirements, nodes: NodeCache, dra_resources: Set[str] = frozenset()) -> None:
        self.demand = requirements
        self._nodes = nodes
        self._dra_resources = dra_resources
        self._journal_position = -1
        self.fits = 0
        """Places of nodes that would do."""
        self.refusals: list[Refusal | None] = []
        self.scores: list[int] = []
        self.by_score: dict[int, int] = {}
        """Places by score, of nodes that would do."""

    def catch_up(self) -> None:
        """Look at the nodes that have changed since the last time."""
        journal = self._nodes.journal
        if journal.end == self._journal_position:
            return
        changed = journal.since(self._journal_position) if self._journal_position >= 0 else None
        self._journal_position = journal.end
        index_count = self._nodes.index_count
        added = index_count - len(self.refusals)
        if added > 0:
            self.refusals.extend([None] * added)
            self.scores.extend([0] * added)
        for index in range(index_count) if changed is None else set(changed):
            self._evaluate(index)

    def _evaluate(self, index: int) -> None:
        bit = 1 << index
        if self.fits & bit:
            before = self.scores[index]
            remaining = self.by_score[before] & ~bit
            if remaining:
                self.by_score[before] = remaining
            else:
                del self.by_score[before]
            self.fits ^= bit
        node = self._nodes.at(index)
        if node is None:
            self.refusals[index] = None
            return
        refusal = run_filters(self.demand, node, self._dra_resources)
        self.refusals[index] = refusal
        if refusal is None:
            value = score(self.demand, node)
            self.scores[index] = value
            self.by_score[value] = self.by_score.get(value, 0) | bit
            self.fits |= bit

    def best(self, among: int, start: int = 0) -> int:
        """The place with the best score among those given; -1 if none of them would do.

        Of equals it is the first from ``start`` on and around.
        """
        among &= self.fits
        if not among:
            return -1
        for value in sorted(self.by_score, reverse=True):
            table = self.by_score[value] & among
            if table:
                table = table >> start << start or table
                return (table & -table).bit_length() - 1
        return -1

    def rejections(self) -> Iterator[tuple[CachedNode, Refusal]]:
        """The nodes that would not do, and why."""
        for index, refusal in enumerate(self.refusals):
            if refusal is not None:
                node = self._nodes.at(index)
                if node is not None:
                    yield node, refusal


class NodeFitTables:
    """The tables of the most recent shapes."""

    _KEPT = 256

    def __init__(self, nodes: NodeCache) -> None:
        self._nodes = nodes
        self._known: dict[tuple[PodRequirements, Set[str]], NodeFitTable] = {}

    def of(self, requirements: PodRequirements, dra_resources: frozenset[str] = frozenset()) -> NodeFitTable:
        """The table of a shape, up to date."""
        key = (requirements, dra_resources)
        table = self._known.pop(key, None)
        if table is None:
            if len(self._known) >= self._KEPT:
                del self._known[next(iter(self._known))]
            table = NodeFitTable(requirements, self._nodes, dra_resources)
        self._known[key] = table  # the most recent is last
        table.catch_up()
        return table


def node_indexes(mask: int) -> Iterator[int]:
    """The places of a bit mask, in order."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
