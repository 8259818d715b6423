"""For one shape of claims: on which nodes they fit, do not fit or may fit, and which node's error ends the attempt.

The engine keeps a verdict for every pattern and state of devices; here they are laid out by place, so that "fits
somewhere among these nodes" is one operation on bit masks, and an error on any eligible node is seen, as in Kubernetes.
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
#: What Kubernetes counts for the first of the alternatives of a request; each later one counts one less.
_FIRST_CHOICE: Final = 8


def undecided_refusal(verdict: Undecided) -> Refusal:
    """Of a node whose search was given up. Kubernetes, which stops by the clock, says that it timed out."""
    return Refusal((f"search for devices given up after {verdict.steps} steps",), cause="undecided")


class DeviceTable:
    """What is known of every place for one shape of claims."""

    __slots__ = ("_journal_position", "fits", "invalid", "errors", "undecided")

    def __init__(self) -> None:
        self._journal_position = -1
        self.fits = 0
        self.errors = 0
        """Places whose answer is an error, which ends the attempt on all nodes."""
        self.invalid = 0
        """Places where nothing fits and a pool is invalid."""
        self.undecided: dict[int, Refusal] = {}
        """Places whose search was given up: the claims are not placed there, other places are still tried."""

    def catch_up(self, allocator: Allocator, cache: ShapeCache) -> None:
        """Look at the nodes whose devices have changed."""
        inventory = allocator.inventory
        journal = inventory.journal
        if journal.end == self._journal_position:
            return
        changed = journal.since(self._journal_position) if self._journal_position >= 0 else None
        self._journal_position = journal.end
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

    def refusal(self, node_index: int) -> Refusal:
        """Why not there, in Kubernetes' words."""
        return self.undecided.get(node_index) or (_INVALID if self.invalid >> node_index & 1 else NO_FIT)


class DeviceTables:
    """The tables of all shapes whose work the allocator keeps."""

    def __init__(self, allocator: Allocator) -> None:
        self.allocator = allocator
        self._known: WeakKeyDictionary[ShapeCache, DeviceTable] = WeakKeyDictionary()

    def of(self, claims: Sequence[ResourceClaim]) -> DeviceTable:
        """The table of these claims, up to date."""
        cache = self.allocator.cache_for(claims)
        table = self._known.get(cache)
        if table is None:
            table = self._known[cache] = DeviceTable()
        table.catch_up(self.allocator, cache)
        return table

    def preference(self, claims: Sequence[ResourceClaim], index: int) -> int:
        """How much of what the claims list first a node would give them."""
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
        """The error that a place of ``stops`` answers."""
        node = self.allocator.inventory.node_at(index)
        outcome = self.allocator.allocate(node, claims) if node is not None else None
        return outcome if isinstance(outcome, Aborted) else None
