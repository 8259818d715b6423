"""Search for changes that make refused claims fit, in the order of `remedies`; each result is confirmed by the engine.

Candidates come from the cause. A change that is not sufficient may still be necessary: then the remaining cause is
found, and a second and third change are tried in addition.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from allotment.engine.diagnosis.cause import find_cause
from allotment.engine.diagnosis.context import Cause, SharedContext
from allotment.engine.diagnosis.scenario import CandidateChange, Scenario
from allotment.engine.outcome import Allocated
from allotment.engine.refusal import SuggestedChange
from allotment.engine.remedies import REMEDIES, REMEDY_ORDER, effort, is_alternative

#: Maximum number of changes that are suggested together.
MAX_CHANGES = 3
#: Candidates that are combined with others if none is sufficient; trials per search.
_PURSUED = 3
_TRIES = 120


class RemedyChanges(NamedTuple):
    """Changes that were verified together; empty if none helps. ``otherwise``: an alternative that changes the user's
    objects, if ``changes`` does not."""

    changes: tuple[SuggestedChange, ...] = ()
    otherwise: tuple[SuggestedChange, ...] = ()

    @property
    def effort(self) -> tuple[int, int]:
        """Sort key of the changes: fewer and easier ones first."""
        return effort(change.remedy for change in self.changes)


class TrialBudget:
    """The remaining number of trials over several searches; None for no limit except that of each search."""

    def __init__(self, left: int | None = None) -> None:
        self._left = left

    def take(self, most: int) -> list[int]:
        """The trials available to one search, as a mutable counter."""
        return [most if self._left is None else min(most, self._left)]

    def spend(self, number: int) -> None:
        """Subtract trials that were made."""
        if self._left is not None:
            self._left -= number


def smallest_change(
    scenario: Scenario, found: Cause, shared: SharedContext, budget: TrialBudget | None = None
) -> RemedyChanges:
    """The smallest changes that make the claims fit."""
    budget = budget or TrialBudget()
    tries = budget.take(_TRIES)
    granted = tries[0]
    try:
        return _smallest(scenario, found, shared, tries)
    finally:
        budget.spend(granted - tries[0])


def _smallest(scenario: Scenario, found: Cause, shared: SharedContext, tries: list[int]) -> RemedyChanges:
    first = _found(scenario, found, shared, tries)
    if not first or REMEDIES[first[0].remedy].scope != "nothing":
        return RemedyChanges(first)
    others = tuple(c for c in found.candidates if REMEDIES[c.remedy].scope != "nothing" and is_alternative([c.remedy]))
    return RemedyChanges(first, _found(scenario, replace(found, candidates=others), shared, tries, most=1))


def _found(
    scenario: Scenario, found: Cause, shared: SharedContext, tries: list[int], most: int = MAX_CHANGES
) -> tuple[SuggestedChange, ...]:
    for depth in range(1, most + 1):
        path = _search(scenario, found, shared, depth, tries)
        if path is not None:
            return tuple(
                SuggestedChange(
                    text=c.text, object=c.object, path=c.path, becomes=c.becomes, node=scenario.node, remedy=c.remedy
                )
                for c in path
            )
        if tries[0] <= 0:
            break
    return ()


def _search(
    scenario: Scenario, found: Cause, shared: SharedContext, depth: int, tries: list[int]
) -> list[CandidateChange] | None:
    ordered = sorted(found.candidates, key=lambda c: REMEDY_ORDER[c.remedy])
    pursued = 0
    for candidate in ordered:
        if tries[0] <= 0:
            return None
        changed = candidate.edit(scenario)
        if depth == 1:
            tries[0] -= 1
            if isinstance(shared.trials(changed), Allocated):
                return [candidate]
            continue
        pursued += 1
        if pursued > _PURSUED:
            return None
        tries[0] -= 1
        if isinstance(shared.trials(changed), Allocated):
            return [candidate]
        rest = find_cause(changed, shared)
        if (rest.code, rest.summary) == (found.code, found.summary):
            continue
        more = _search(changed, rest, shared, depth - 1, tries)
        if more is not None:
            return [candidate, *more]
    return None
