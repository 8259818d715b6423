"""Search for the changes that make refused claims fit and are nearest to what was intended; the engine confirms them.

Candidates come from the cause. A change that is not sufficient may still be necessary: then the remaining cause is
found, and its candidates are tried in addition. Sets of changes are tried in the order of their distance, so that the
first sufficient set is the nearest one. Finally parts of the set are tried, so that no change of it can be left out.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from allotment.engine.diagnosis.cause import find_cause
from allotment.engine.diagnosis.context import Cause, SharedContext
from allotment.engine.diagnosis.scenario import CandidateChange, Scenario
from allotment.engine.outcome import Allocated
from allotment.engine.refusal import SuggestedChange
from allotment.engine.remedies import FARTHEST, POSITION, REMEDIES, Distance, is_alternative

#: Maximum number of changes that are suggested together.
MAX_CHANGES = 3
_TRIES = 120
#: Insufficient sets for which the remaining cause is found, in one search, and of these those that end with the same
#: kind of change: finding a cause costs as much as several trials.
_PURSUED = 12
_OF_A_KIND = 3
#: More than the sizes of three changes together.
_LOSS_WEIGHT = 1000.0


class RemedyChanges(NamedTuple):
    """Changes that were verified together; empty if none helps. ``otherwise``: an alternative that changes the user's
    objects, if ``changes`` does not. ``devices``: the free devices that the changes select, if they select others.
    ``edits``: the changes as they can be applied to a scenario."""

    changes: tuple[SuggestedChange, ...] = ()
    otherwise: tuple[SuggestedChange, ...] = ()
    distance: Distance = FARTHEST
    devices: int = 0
    edits: tuple[CandidateChange, ...] = ()


class TrialBudget:
    """The remaining number of trials over several searches; None for no limit except that of each search."""

    def __init__(self, left: int | None = None) -> None:
        self._left = left

    @property
    def is_limited(self) -> bool:
        """Whether a search may find less because of earlier ones."""
        return self._left is not None

    def take(self, most: int) -> list[int]:
        """The trials available to one search, as a mutable counter."""
        return [most if self._left is None else min(most, self._left)]

    def spend(self, number: int) -> None:
        """Subtract trials that were made."""
        if self._left is not None:
            self._left -= number


class _ChangeSet(NamedTuple):
    """Changes in the order in which they were found, the scenario before the last one, and the cause in it."""

    changes: tuple[CandidateChange, ...]
    before: Scenario
    cause: Cause
    after: Scenario | None = None
    """The scenario with all changes, if they are not sufficient and their remaining cause is to be found."""


def distance_of(changes: Iterable[CandidateChange]) -> Distance:
    """The distance of changes together: the worst loss, the number of changes, and the sum of their sizes.

    Of two sets with the same worst loss the one whose other changes lose less is nearer, whatever their sizes.
    """
    each = [change.distance for change in changes]
    if not each:
        return FARTHEST
    worst = max(d.loss for d in each)
    others = sum(d.loss for d in each) - worst
    return Distance(worst, len(each), sum(d.size for d in each) + others * _LOSS_WEIGHT)


def smallest_change(
    scenario: Scenario, found: Cause, shared: SharedContext, budget: TrialBudget | None = None
) -> RemedyChanges:
    """The changes nearest to what was intended with which the claims fit."""
    budget = budget or TrialBudget()
    tries = budget.take(_TRIES)
    granted = tries[0]
    try:
        return _smallest(scenario, found, shared, tries)
    finally:
        budget.spend(granted - tries[0])


def _smallest(scenario: Scenario, found: Cause, shared: SharedContext, tries: list[int]) -> RemedyChanges:
    first = _nearest(scenario, found, shared, tries)
    remedy = RemedyChanges(
        _suggested(first, scenario.node), (), distance_of(first), max((c.devices for c in first), default=0), first
    )
    if not first or REMEDIES[first[0].remedy].scope != "nothing":
        return remedy
    others = tuple(c for c in found.candidates if REMEDIES[c.remedy].scope != "nothing" and is_alternative([c.remedy]))
    second = _nearest(scenario, replace(found, candidates=others), shared, tries, most=1)
    return remedy._replace(otherwise=_suggested(second, scenario.node))


def _suggested(changes: tuple[CandidateChange, ...], node: str) -> tuple[SuggestedChange, ...]:
    """The changes as public values; of several new values of one field only the last one, which contains the others."""
    found: list[SuggestedChange] = []
    for number, c in enumerate(changes):
        if any(_contains(later, c) for later in changes[number + 1 :]):
            continue
        merged = [*(earlier for earlier in changes[:number] if _contains(c, earlier)), c]
        text = ", and ".join(change.text for change in merged)
        remedy = max(merged, key=lambda change: change.distance.loss).remedy
        found.append(
            SuggestedChange(text=text, object=c.object, path=c.path, becomes=c.becomes, node=node, remedy=remedy)
        )
    return tuple(found)


def _contains(later: CandidateChange, earlier: CandidateChange) -> bool:
    """Whether the new value of a later change contains an earlier change of the same field, or of a part of it."""
    is_merged = isinstance(later.becomes, dict)  # into the fields that earlier changes set
    if later.object != earlier.object or not later.path or is_merged:
        return False
    is_same = later.path == earlier.path and isinstance(later.becomes, str)
    return is_same or earlier.path.startswith(f"{later.path}.")


def _replaces(later: CandidateChange, earlier: CandidateChange) -> bool:
    """Whether a later change sets the same amounts as an earlier one, which then has no effect."""
    if (later.object, later.path, later.remedy) != (earlier.object, earlier.path, earlier.remedy):
        return False
    return isinstance(later.becomes, dict) and isinstance(earlier.becomes, dict) and later.becomes != earlier.becomes


def _nearest(
    scenario: Scenario, found: Cause, shared: SharedContext, tries: list[int], most: int = MAX_CHANGES
) -> tuple[CandidateChange, ...]:
    """The sufficient set of changes with the smallest distance; empty if none is found."""
    queue = _Queue()
    queue.extend((), scenario, found)
    pursued: Counter[tuple[str, ...]] = Counter()
    while tries[0] > 0 and (next_ := queue.pop()) is not None:
        changes = next_.changes
        if next_.after is not None:
            kind = tuple(f"{change.remedy} {change.path}" for change in changes)
            if pursued.total() == _PURSUED or pursued[kind] == _OF_A_KIND:
                continue
            pursued[kind] += 1
            rest = find_cause(next_.after, shared)
            if (rest.code, rest.summary) != (next_.cause.code, next_.cause.summary):
                queue.extend(changes, next_.after, rest)
            continue
        if len(changes) > 1 and tries[0] <= queue.singles:  # each single change is tried
            continue
        tries[0] -= 1
        after = changes[-1].edit(next_.before)
        if isinstance(shared.trials(after), Allocated):
            return _minimal(scenario, changes, shared, tries)
        if len(changes) < most:
            queue.pursue(next_._replace(after=after))
    return ()


def _minimal(
    scenario: Scenario, changes: tuple[CandidateChange, ...], shared: SharedContext, tries: list[int]
) -> tuple[CandidateChange, ...]:
    """The nearest part of the changes that is sufficient, or all of them."""
    parts = [part for number in range(1, len(changes)) for part in combinations(changes, number)]
    for part in sorted(parts, key=lambda part: (len(part), distance_of(part))):
        left_out = [change for change in changes if change not in part]
        if any(_contains(change, other) for change in part for other in left_out):  # the part has the same effect
            continue
        if tries[0] <= 0:
            break
        tries[0] -= 1
        if isinstance(shared.trials(applied(part, scenario)), Allocated):
            return part
    return changes


def applied(changes: Iterable[CandidateChange], scenario: Scenario) -> Scenario:
    """The scenario with all of the changes."""
    for change in changes:
        scenario = change.edit(scenario)
    return scenario


class _Queue:
    """Sets of changes by distance; of equally distant ones, remedies in the order of their table, then as found."""

    def __init__(self) -> None:
        self._heap: list[tuple[Distance, int, int, _ChangeSet]] = []
        self._number = 0
        self._seen: set[frozenset[tuple[str, str, str]]] = set()
        self.singles = 0
        """The number of single changes that are still to be tried."""

    def extend(self, changes: tuple[CandidateChange, ...], scenario: Scenario, cause: Cause) -> None:
        """Add the changes with each candidate of the remaining cause."""
        releases = any(change.remedy == "wait" for change in changes)
        for candidate in cause.candidates:
            if releases and candidate.remedy == "wait":  # candidates to release several claims exist
                continue
            more = (*(change for change in changes if not _replaces(candidate, change)), candidate)
            key = frozenset((c.object, c.path, c.text) for c in more)
            if len(key) < len(more) or key in self._seen:
                continue
            self._seen.add(key)
            self.singles += not changes
            self._push(distance_of(more), candidate, _ChangeSet(more, scenario, cause))

    def pursue(self, failed: _ChangeSet) -> None:
        """Find the remaining cause of an insufficient set when no nearer set is left: one more change is farther."""
        lost = distance_of(failed.changes)
        self._push(lost._replace(edits=lost.edits + 1), failed.changes[-1], failed)

    def pop(self) -> _ChangeSet | None:
        """The nearest set."""
        if not self._heap:
            return None
        found = heapq.heappop(self._heap)[-1]
        self.singles -= len(found.changes) == 1 and found.after is None
        return found

    def _push(self, distance: Distance, last: CandidateChange, entry: _ChangeSet) -> None:
        self._number += 1
        heapq.heappush(self._heap, (distance, POSITION[last.remedy], self._number, entry))
