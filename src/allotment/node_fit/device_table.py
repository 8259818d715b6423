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


def given_up(verdict: Undecided) -> Refusal:
    """Of a node whose search was given up. Kubernetes, which stops by the clock, says that it timed out."""
    return Refusal((f"search for devices given up after {verdict.steps} steps",), cause="undecided")


class DeviceTable:
    """What is known of every place for one shape of claims."""

    __slots__ = ("_at", "fits", "invalid", "stops", "undecided")

    def __init__(self) -> None:
        self._at = -1
        self.fits = 0
        self.stops = 0
        """Places whose answer is an error, which ends the attempt on all nodes."""
        self.invalid = 0
        """Places where nothing fits and a pool is invalid."""
        self.undecided: dict[int, Refusal] = {}
        """Places whose search was given up: the claims are not placed there, other places are still tried."""

    def catch_up(self, allocator: Allocator, work: ShapeCache) -> None:
        """Look at the nodes whose devices have changed."""
        inventory = allocator.inventory
        journal = inventory.journal
        if journal.end == self._at:
            return
        changed = journal.since(self._at) if self._at >= 0 else None
        self._at = journal.end
        if changed is None:
            self.fits = self.stops = self.invalid = 0
            self.undecided.clear()
        for place in range(inventory.index_count) if changed is None else set(changed):
            bit = 1 << place
            keep = ~bit
            self.fits &= keep
            self.stops &= keep
            self.invalid &= keep
            self.undecided.pop(place, None)
            node = inventory.node_at(place)
            if node is None:
                continue
            verdict = work.verdict(inventory.view(node))
            if isinstance(verdict, Solution):
                self.fits |= bit
            elif isinstance(verdict, Undecided):
                self.undecided[place] = given_up(verdict)
            elif not isinstance(verdict, NoFit):
                self.stops |= bit
            elif verdict.invalid_pool:
                self.invalid |= bit

    def refusal(self, place: int) -> Refusal:
        """Why not there, in Kubernetes' words."""
        return self.undecided.get(place) or (_INVALID if self.invalid >> place & 1 else NO_FIT)


class DeviceTables:
    """The tables of all shapes whose work the allocator keeps."""

    def __init__(self, allocator: Allocator) -> None:
        self.allocator = allocator
        self._known: WeakKeyDictionary[ShapeCache, DeviceTable] = WeakKeyDictionary()

    def of(self, claims: Sequence[ResourceClaim]) -> DeviceTable:
        """The table of these claims, up to date."""
        work = self.allocator.cache_for(claims)
        found = self._known.get(work)
        if found is None:
            found = self._known[work] = DeviceTable()
        found.catch_up(self.allocator, work)
        return found

    def preference(self, claims: Sequence[ResourceClaim], place: int) -> int:
        """How much of what the claims list first a node would give them."""
        inventory = self.allocator.inventory
        node = inventory.node_at(place)
        work = self.allocator.cache_for(claims)
        verdict = work.verdict(inventory.view(node)) if node is not None else None
        if not isinstance(verdict, Solution):
            return 0
        return sum(
            _FIRST_CHOICE - (choice - request.subrequests[0].number)
            for claim, chosen in zip(work.shape.claims, verdict.chosen, strict=True)
            for request, choice in zip(claim.requests, chosen, strict=True)
            if request.is_prioritized_list
        )

    def error_on(self, place: int, claims: Sequence[ResourceClaim]) -> Aborted | None:
        """The error that a place of ``stops`` answers."""
        node = self.allocator.inventory.node_at(place)
        outcome = self.allocator.allocate(node, claims) if node is not None else None
        return outcome if isinstance(outcome, Aborted) else None
