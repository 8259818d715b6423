"""The results of a search (solution, no fit, undecided, fatal error), in slots so that equivalent nodes share them."""

from __future__ import annotations

from typing import NamedTuple

from allotment.engine.claims.requests import ClaimProblem
from allotment.engine.outcome import AbortCause


class Pick(NamedTuple):
    """A device chosen for a subrequest."""

    subrequest: int
    slot: int


class Solution(NamedTuple):
    """The claims fit with these devices."""

    picks: tuple[tuple[Pick, ...], ...]
    """Devices per claim, in the order of its requests and in the order of choice within a request."""
    chosen: tuple[tuple[int, ...], ...]
    """Per claim and request: the satisfied subrequest."""


class NoFit(NamedTuple):
    """The claims do not fit."""

    invalid_pool: bool
    """Whether the node has an invalid pool: the outcome is then a non-fatal error."""


class Undecided(NamedTuple):
    """The search reached its step limit, so it is unknown whether the claims fit; other nodes are still tried."""

    claim: int
    subrequest: int
    """The subrequest that the search was processing at the limit."""
    steps: int


class Stop(NamedTuple):
    """A fatal error; `results` creates its text."""

    cause: AbortCause
    claim: int
    subrequest: int | None = None
    slot: int | None = None
    pool: int | None = None
    devices: int = 0
    """Number of devices that the claim requests, if they are too many; ``devices_before``: without this request."""
    devices_before: int = 0
    problem: ClaimProblem | None = None


Verdict = Solution | NoFit | Undecided | Stop
