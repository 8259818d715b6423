"""What the search finds for a pattern in a state: slots instead of devices, so that it holds for every such node."""

from __future__ import annotations

from typing import NamedTuple

from allotment.engine.claims.requests import ClaimProblem
from allotment.engine.outcome import AbortCause


class Pick(NamedTuple):
    """One device for one ask."""

    subrequest: int
    slot: int


class Solution(NamedTuple):
    """The claims fit."""

    picks: tuple[tuple[Pick, ...], ...]
    """Per claim, in the order of its requests, and in the order of choice within a request."""
    chosen: tuple[tuple[int, ...], ...]
    """Per claim and request: the ask that was met."""


class NoFit(NamedTuple):
    """The claims do not fit."""

    invalid_pool: bool
    """Whether an invalid pool was met: then the answer is an error, though not a fatal one."""


class Undecided(NamedTuple):
    """The search reached its step limit: whether the claims fit is unknown. The node fails, others are still tried."""

    claim: int
    subrequest: int
    """What the search was looking for when it was given up."""
    steps: int


class Stop(NamedTuple):
    """A fatal error; see `results` for its text."""

    cause: AbortCause
    claim: int
    subrequest: int | None = None
    slot: int | None = None
    pool: int | None = None
    devices: int = 0
    """How many the claim asks for, if that is the error; and how many without the request in question."""
    devices_before: int = 0
    problem: ClaimProblem | None = None


Verdict = Solution | NoFit | Undecided | Stop
