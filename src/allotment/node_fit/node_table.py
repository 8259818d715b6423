"""Tables of filter results and scores of all nodes for equal pods, updated where nodes have changed.

Without them, thousands of equal pods on hundreds of nodes would need an evaluation for every pair. A placed pod changes
one node, so that the next pod costs one evaluation, regardless of the number of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from allotment.node_fit.filters import run_filters
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.nodes import CachedNode, NodeCache
from allotment.node_fit.pod_requirements import PodRequirements
from allotment.node_fit.scores import score


class NodeFitTable:
    """The filter result and score of every node for one set of pod requirements; masks are over node indexes."""

    __slots__ = (
        "_journal_position",
        "_dra_resources",
        "_nodes",
        "by_score",
        "requirements",
        "fits",
        "refusals",
        "scores",
    )

    def __init__(self, requirements: PodRequirements, nodes: NodeCache, dra_resources: Set[str] = frozenset()) -> None:
        self.requirements = requirements
        self._nodes = nodes
        self._dra_resources = dra_resources
        self._journal_position = -1
        self.fits = 0
        """Mask of the nodes that pass all filters."""
        self.refusals: list[Refusal | None] = []
        self.scores: list[int] = []
        self.by_score: dict[int, int] = {}
        """Masks of the nodes that pass all filters, by score."""

    def catch_up(self) -> None:
        """Evaluate the nodes that have changed since the last call."""
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
        refusal = run_filters(self.requirements, node, self._dra_resources)
        self.refusals[index] = refusal
        if refusal is None:
            value = score(self.requirements, node)
            self.scores[index] = value
            self.by_score[value] = self.by_score.get(value, 0) | bit
            self.fits |= bit

    def best(self, among: int, start: int = 0) -> int:
        """Return the index of the node with the highest score in the mask ``among``; -1 if none of them fits.

        Ties go to the first index from ``start`` on, wrapping around.
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
        """Yield the nodes that a filter rejected, with the refusal."""
        for index, refusal in enumerate(self.refusals):
            if refusal is not None:
                node = self._nodes.at(index)
                if node is not None:
                    yield node, refusal


class NodeFitTables:
    """The tables of the most recently used pod requirements."""

    _KEPT = 256

    def __init__(self, nodes: NodeCache) -> None:
        self._nodes = nodes
        self._known: dict[tuple[PodRequirements, Set[str]], NodeFitTable] = {}

    def of(self, requirements: PodRequirements, dra_resources: frozenset[str] = frozenset()) -> NodeFitTable:
        """Return the table of pod requirements, up to date."""
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
    """Yield the node indexes in a bit mask, in ascending order."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
