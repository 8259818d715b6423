"""The cause where a search reached its step limit: nothing is known to be in the way, so no change is proposed."""

from __future__ import annotations

from typing import TypeGuard

from allotment.engine.diagnosis.context import Cause, Scene, places, wanted_of
from allotment.engine.outcome import AbortCause as Abort
from allotment.engine.outcome import Aborted, Outcome
from allotment.engine.refusal import CODES, SEARCH_GIVEN_UP
from allotment.model.resource import ResourceClaim


def is_undecided(outcome: Outcome) -> TypeGuard[Aborted]:
    """Whether the engine gave up, so that the claims may fit all the same."""
    return isinstance(outcome, Aborted) and outcome.cause is Abort.WORK_LIMIT


def given_up(scene: Scene, claims: tuple[ResourceClaim, ...], steps: int) -> Cause:
    """The cause, with what each request of ``claims`` could choose from."""
    traces = tuple(scene.trace(wanted_of(place, asked)) for claim in claims for place, asked in places(claim))
    only = traces[0].wanted.name if len(traces) == 1 else ""
    summary = f"the search for devices was given up after {steps} steps"
    kubernetes = CODES[SEARCH_GIVEN_UP].kubernetes.replace("N", scene.world.node, 1)
    return Cause(SEARCH_GIVEN_UP, summary, traces[0].wanted.claim, only, traces, kubernetes=kubernetes)
