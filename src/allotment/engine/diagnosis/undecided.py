"""The cause if a search reached its step limit: the obstacle is unknown, so no change is suggested."""

from __future__ import annotations

from typing import TypeGuard

from allotment.engine.diagnosis.context import Cause, NodeContext, query_of, requests_of
from allotment.engine.outcome import AbortCause, Aborted, Outcome
from allotment.engine.refusal import CODES, SEARCH_GIVEN_UP
from allotment.model.resource import ResourceClaim


def is_undecided(outcome: Outcome) -> TypeGuard[Aborted]:
    """Whether the search reached its step limit, so that the claims may fit."""
    return isinstance(outcome, Aborted) and outcome.cause is AbortCause.WORK_LIMIT


def search_given_up(context: NodeContext, claims: tuple[ResourceClaim, ...], steps: int) -> Cause:
    """The cause, with the funnel of each request of ``claims``."""
    traces = tuple(context.trace(query_of(location, spec)) for claim in claims for location, spec in requests_of(claim))
    only = traces[0].query.name if len(traces) == 1 else ""
    summary = f"the search for devices was given up after {steps} steps"
    kubernetes = CODES[SEARCH_GIVEN_UP].kubernetes.replace("N", context.scenario.node, 1)
    return Cause(SEARCH_GIVEN_UP, summary, traces[0].query.claim, only, traces, kubernetes=kubernetes)
