"""Tables of the nodes on which claims of one shape fit, do not fit, are undecided or cause an error.

The engine caches a verdict for every pattern and state of devices. Here the verdicts are bit masks over node indexes,
so that "fits on any of these nodes" is one operation and an error on any eligible node is detected, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from weakref import WeakKeyDictionary

from allotment.engine.allocator import Allocator, ShapeCache
from allotment.engine.outcome import Aborted
from allotment.engine.search.verdict import NoFit, Solution, Undecided
from allotment.model.resource import ResourceClaim
from allotment.node_fit.filters.refusal import Refusal

NO_FIT: Final = Refusal(("cannot allocate all claims",), cause="devices")
_INVALID: Final = Refusal(("invalid resource pools were encountered",), cause="devices")
#: Causes of refusals by devices.
DEVICE_CAUSES: Final = frozenset({"devices", "undecided"})
#: Kubernetes' score for the first alternative of a request; each later one scores one less.
_FIRST_CHOICE: Final = 8


def undecided_refusal(verdict: Undecided) -> Refusal:
    """Return the refusal of a node whose search reached its step limit. Kubernetes has a timeout instead."""
    return Refusal((f"search for devices stopped after {verdict.steps} steps",), cause="undecided")


class DeviceTable:
    """The verdict of every node for claims of one shape, as bit masks over node indexes."""

    __slots__ = ("_journal_position", "errors", "fits", "invalid", "undecided")

    def __init__(self) -> None:
        self._journal_position = -1
        self.fits = 0
        self.errors = 0
        """Nodes where allocation fails with an error, which ends the attempt on all nodes."""
        self.invalid = 0
        """Nodes where the claims do not fit and a pool is invalid."""
        self.undecided: dict[int, Refusal] = {}
        """Nodes whose search reached its step limit: the claims are not placed there, other nodes are still tried."""

    def catch_up(self, allocator: Allocator, cache: ShapeCache) -> None:
        """Update the nodes whose devices have changed since the last call."""
        inventory = allocator.inventory
        journal = inventory.journal
        if journal.end == self._journal_position:
            return
        changed = journal.since(self._journal_position) if self._journal_position >= 0 else None
        if changed is None:
            self.fits = self.errors = self.invalid = 0
            self.undecided.clear()
        for index in range(inventory.index_count) if changed is None else set(changed):
            bit = 1 << index
            keep = ~bit
            self.fits &= keep
            self.errors &= keep
            self.invalid &= keep
            self.undecided.pop(index, None)
            node = inventory.node_at(index)
            if node is None:
                continue
            verdict = cache.verdict(inventory.view(node))
            if isinstance(verdict, Solution):
                self.fits |= bit
            elif isinstance(verdict, Undecided):
                self.undecided[index] = undecided_refusal(verdict)
            elif not isinstance(verdict, NoFit):
                self.errors |= bit
            elif verdict.invalid_pool:
                self.invalid |= bit
        self._journal_position = journal.end  # last, so that a search that is interrupted is made again

    def refusal(self, index: int) -> Refusal:
        """Return why the claims do not fit on a node, in Kubernetes' words."""
        return self.undecided.get(index) or (_INVALID if self.invalid >> index & 1 else NO_FIT)


class DeviceTables:
    """The tables of all claim shapes that the allocator caches."""

    def __init__(self, allocator: Allocator) -> None:
        self.allocator = allocator
        self._known: WeakKeyDictionary[ShapeCache, DeviceTable] = WeakKeyDictionary()

    def of(self, claims: Sequence[ResourceClaim]) -> DeviceTable:
        """Return the table of these claims, up to date."""
        cache = self.allocator.cache_for(claims)
        table = self._known.get(cache)
        if table is None:
            table = self._known[cache] = DeviceTable()
        table.catch_up(self.allocator, cache)
        return table

    def preference(self, claims: Sequence[ResourceClaim], index: int) -> int:
        """Return the score of a node for prioritized lists: higher if earlier alternatives of the requests fit."""
        inventory = self.allocator.inventory
        node = inventory.node_at(index)
        cache = self.allocator.cache_for(claims)
        verdict = cache.verdict(inventory.view(node)) if node is not None else None
        if not isinstance(verdict, Solution):
            return 0
        return sum(
            _FIRST_CHOICE - (choice - request.subrequests[0].number)
            for claim, chosen in zip(cache.shape.claims, verdict.chosen, strict=True)
            for request, choice in zip(claim.requests, chosen, strict=True)
            if request.is_prioritized_list
        )

    def error_on(self, index: int, claims: Sequence[ResourceClaim]) -> Aborted | None:
        """Return the allocation error of a node in ``errors``, or None if there is none."""
        node = self.allocator.inventory.node_at(index)
        outcome = self.allocator.allocate(node, claims) if node is not None else None
        return outcome if isinstance(outcome, Aborted) else None
