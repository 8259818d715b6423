"""What makes refused claims fit, found by making changes and asking the engine, in the order of `remedies`.

Candidates come from the cause. One that does not suffice may still be needed: then the cause of what remains is found,
and a second and third change are tried on top. Nothing is told that the engine has not confirmed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from allotment.engine.diagnosis.cause import cause
from allotment.engine.diagnosis.context import Cause, Inquiry
from allotment.engine.diagnosis.scenario import Candidate, World
from allotment.engine.outcome import Allocated
from allotment.engine.refusal import Change
from allotment.engine.remedies import REMEDIES, TURN, effort, is_alternative

#: Changes that are told together at most.
DEPTH = 3
#: Candidates that are pursued when none suffices alone; worlds that are tried in all.
_PURSUED = 3
_TRIES = 120


class Mending(NamedTuple):
    """Changes that were verified together; none if nothing that was tried helps. ``otherwise``: what would help, too,
    where the first of them asks nothing of whoever waits."""

    changes: tuple[Change, ...] = ()
    otherwise: tuple[Change, ...] = ()

    @property
    def effort(self) -> tuple[int, int]:
        """How much the changes are together."""
        return effort(change.remedy for change in self.changes)


class Budget:
    """How many changed worlds may still be tried, over several searches; None for no bound but that of each search."""

    def __init__(self, left: int | None = None) -> None:
        self._left = left

    def take(self, most: int) -> list[int]:
        """Tries for one search."""
        return [most if self._left is None else min(most, self._left)]

    def spend(self, number: int) -> None:
        """So many were made."""
        if self._left is not None:
            self._left -= number


def smallest_change(world: World, found: Cause, inquiry: Inquiry, budget: Budget | None = None) -> Mending:
    """The changes to make so that the claims fit."""
    budget = budget or Budget()
    tries = budget.take(_TRIES)
    granted = tries[0]
    try:
        return _smallest(world, found, inquiry, tries)
    finally:
        budget.spend(granted - tries[0])


def _smallest(world: World, found: Cause, inquiry: Inquiry, tries: list[int]) -> Mending:
    first = _found(world, found, inquiry, tries)
    if not first or REMEDIES[first[0].remedy].changes != "nothing":
        return Mending(first)
    others = tuple(
        c for c in found.candidates if REMEDIES[c.remedy].changes != "nothing" and is_alternative([c.remedy])
    )
    return Mending(first, _found(world, replace(found, candidates=others), inquiry, tries, most=1))


def _found(world: World, found: Cause, inquiry: Inquiry, tries: list[int], most: int = DEPTH) -> tuple[Change, ...]:
    for depth in range(1, most + 1):
        path = _search(world, found, inquiry, depth, tries)
        if path is not None:
            return tuple(
                Change(text=c.text, object=c.object, path=c.path, becomes=c.becomes, node=world.node, remedy=c.remedy)
                for c in path
            )
        if tries[0] <= 0:
            break
    return ()


def _search(world: World, found: Cause, inquiry: Inquiry, depth: int, tries: list[int]) -> list[Candidate] | None:
    ordered = sorted(found.candidates, key=lambda c: TURN[c.remedy])
    pursued = 0
    for candidate in ordered:
        if tries[0] <= 0:
            return None
        changed = candidate.edit(world)
        if depth == 1:
            tries[0] -= 1
            if isinstance(inquiry.attempts(changed), Allocated):
                return [candidate]
            continue
        pursued += 1
        if pursued > _PURSUED:
            return None
        tries[0] -= 1
        if isinstance(inquiry.attempts(changed), Allocated):
            return [candidate]
        rest = cause(changed, inquiry)
        if (rest.code, rest.summary) == (found.code, found.summary):
            continue
        more = _search(changed, rest, inquiry, depth - 1, tries)
        if more is not None:
            return [candidate, *more]
    return None
