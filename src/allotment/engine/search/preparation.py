"""Upstream's checks before it searches: claim by claim, request by request, and the first problem ends it all.

They need a node, because ``allocationMode: All`` is counted here: its devices must be known, so every pool that a node
sees must be whole, and no selector may fail on any device.
"""

from __future__ import annotations

from allotment.engine.claims.requests import DEVICES_PER_CLAIM, Ask, Request
from allotment.engine.cluster.pools import PoolStatus
from allotment.engine.outcome import Cause
from allotment.engine.search.attempt import Attempt
from allotment.engine.search.verdict import Stop


def problem(attempt: Attempt) -> Stop | None:
    """The first problem, or ``None`` if the search may begin."""
    for number, claim in enumerate(attempt.shape.claims):
        least = 0
        for request in claim.requests:
            stop = _of_request(attempt, number, request)
            if stop is not None:
                return stop
            before = least
            least += min(attempt.need[ask.number] for ask in request.asks)
            if least > DEVICES_PER_CLAIM and attempt.shape.release.limit_by_request:
                first = request.asks[0].number
                return Stop(Cause.TOO_MANY_DEVICES, number, first, devices=least, devices_before=before)
        if least > DEVICES_PER_CLAIM:
            return Stop(Cause.TOO_MANY_DEVICES, number, devices=least)
        if claim.fault is not None:
            return Stop(claim.fault.cause, number, fault=claim.fault)
    return None


def _of_request(attempt: Attempt, claim: int, request: Request) -> Stop | None:
    if request.fault is not None:
        return Stop(request.fault.cause, claim, request.asks[0].number, fault=request.fault)
    for ask in request.asks:
        if ask.fault is not None:
            return Stop(ask.fault.cause, claim, ask.number, fault=ask.fault)
        if ask.all and (stop := _uncountable(attempt, ask)) is not None:
            return stop
    return None


def _uncountable(attempt: Attempt, ask: Ask) -> Stop | None:
    """Why the devices that ``All`` means cannot be told, in the order of the pools."""
    poison = attempt.pattern.poison[ask.number]
    for number, span in enumerate(attempt.layout.pools):
        if span.status is PoolStatus.INCOMPLETE:
            return Stop(Cause.POOL_INCOMPLETE, ask.claim, ask.number, pool=number)
        if span.status is PoolStatus.INVALID:
            return Stop(Cause.POOL_INVALID, ask.claim, ask.number, pool=number)
        bad = poison & ((1 << span.stop) - (1 << span.start))
        if bad:
            return Stop(Cause.SELECTOR, ask.claim, ask.number, (bad & -bad).bit_length() - 1)
    return None


def risks(attempt: Attempt) -> list[list[bool]]:
    """Per claim and request, whether an error may lie in it or in any later one: a hazard, see `search`."""
    found = [[False] * len(claim.requests) for claim in attempt.shape.claims]
    risky = False
    for number, claim in reversed(list(enumerate(attempt.shape.claims))):
        for position, request in reversed(list(enumerate(claim.requests))):
            risky = risky or any(
                (ask.all and ask.constraints)
                or attempt.pattern.poison[ask.number] & (-1 if ask.admin else ~attempt.in_use)
                for ask in request.asks
            )
            found[number][position] = risky
    return found
