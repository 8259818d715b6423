"""The search for devices: the first solution in upstream's order, without upstream's exponential ways to it.

The order is that of a depth-first search over claims, requests, alternatives and devices, in which a request takes its
devices in increasing order and the first complete solution wins. Left out are only branches that cannot hold that
solution: those that `bounds` refuses, those that differ from a refused one by the exchange of interchangeable devices,
and states that were refused before (`symmetry`). Apart from one question to the bounds, nothing of this happens before
the first dead end, because most searches meet none.

*Hazards* are errors that upstream raises when the search comes by: a selector that fails on a device, and a constraint
that refuses a device of ``allocationMode: All``. Whether it comes by depends on the very order of the devices. So
while a hazard may lie ahead nothing is left out but states that were refused before as they are.

The stack is explicit: a pod may ask for more devices than Python likes to recurse.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias

from allotment.engine.claims.requests import MAX_DEVICES_PER_CLAIM, ClaimShape, CompiledRequest, Subrequest
from allotment.engine.cluster.layout import NodeState
from allotment.engine.cluster.pools import PoolStatus
from allotment.engine.outcome import AbortCause
from allotment.engine.search.attempt import Rejection, SearchAttempt, TakenDevice
from allotment.engine.search.bounds import SearchBounds
from allotment.engine.search.pattern import Pattern
from allotment.engine.search.symmetry import FailedStates, InterchangeableSlots
from allotment.engine.search.verdict import NoFit, Solution, Stop, Undecided, Verdict


def first_problem(attempt: SearchAttempt) -> Stop | None:
    """The first problem, or ``None`` if the search may begin."""
    for number, claim in enumerate(attempt.shape.claims):
        least = 0
        for request in claim.requests:
            stop = _of_request(attempt, number, request)
            if stop is not None:
                return stop
            before = least
            least += min(attempt.need[ask.number] for ask in request.subrequests)
            if least > MAX_DEVICES_PER_CLAIM and attempt.shape.release.limit_by_request:
                first = request.subrequests[0].number
                return Stop(AbortCause.TOO_MANY_DEVICES, number, first, devices=least, devices_before=before)
        if least > MAX_DEVICES_PER_CLAIM:
            return Stop(AbortCause.TOO_MANY_DEVICES, number, devices=least)
        if claim.problem is not None:
            return Stop(claim.problem.cause, number, problem=claim.problem)
    return None


def _of_request(attempt: SearchAttempt, claim: int, request: CompiledRequest) -> Stop | None:
    if request.problem is not None:
        return Stop(request.problem.cause, claim, request.subrequests[0].number, problem=request.problem)
    for ask in request.subrequests:
        if ask.problem is not None:
            return Stop(ask.problem.cause, claim, ask.number, problem=ask.problem)
        if ask.all and (stop := _unusable_all(attempt, ask)) is not None:
            return stop
    return None


def _unusable_all(attempt: SearchAttempt, ask: Subrequest) -> Stop | None:
    """Why the devices that ``All`` means cannot be told, in the order of the pools."""
    poison = attempt.pattern.failing[ask.number]
    for number, span in enumerate(attempt.layout.pools):
        if span.status is PoolStatus.INCOMPLETE:
            return Stop(AbortCause.POOL_INCOMPLETE, ask.claim, ask.number, pool=number)
        if span.status is PoolStatus.INVALID:
            return Stop(AbortCause.POOL_INVALID, ask.claim, ask.number, pool=number)
        bad = poison & ((1 << span.stop) - (1 << span.start))
        if bad:
            return Stop(AbortCause.SELECTOR, ask.claim, ask.number, (bad & -bad).bit_length() - 1)
    return None


def risks(attempt: SearchAttempt) -> list[list[bool]]:
    """Per claim and request, whether an error may lie in it or in any later one: a hazard, see `search`."""
    found = [[False] * len(claim.requests) for claim in attempt.shape.claims]
    risky = False
    for number, claim in reversed(list(enumerate(attempt.shape.claims))):
        for position, request in reversed(list(enumerate(claim.requests))):
            risky = risky or any(
                (ask.all and ask.constraints)
                or attempt.pattern.failing[ask.number] & (-1 if ask.admin else ~attempt.in_use)
                for ask in request.subrequests
            )
            found[number][position] = risky
    return found


#: Steps (devices tried and choices opened) before a search is given up; some ten seconds at worst.
STEP_LIMIT: Final = 200_000


class _Move(Enum):
    """Where the search goes next."""

    ON = "try what is next in the choice on top of the stack"
    DONE = "every request is satisfied"
    FAILED = "this branch has no solution: take back the last choice"
    EXCEEDED = "this branch needs more than 32 devices in one claim: only another alternative can help"


#: Where the search goes next, or why it ends without an answer of its own.
_NextMove: TypeAlias = _Move | Stop | Undecided


class _Alternatives:
    """A firstAvailable request; one of its asks is being tried."""

    __slots__ = ("all_exceeded", "claim", "current", "request")

    def __init__(self, claim: int, request: int) -> None:
        self.claim = claim
        self.request = request
        self.current = 0
        self.all_exceeded = True


class _Devices:
    """The devices that may come next for an ask; one of them is being tried."""

    __slots__ = ("ask", "key", "poison", "position", "remaining", "request", "taken")

    def __init__(self, request: int, ask: Subrequest, position: int, remaining: int, poison: int) -> None:
        self.request = request
        self.ask = ask
        self.position = position
        """How many devices the ask has already."""
        self.remaining = remaining
        self.poison = poison
        """Slots on which a selector fails."""
        self.taken: TakenDevice | None = None
        """The one being tried."""
        self.key: object = None
        """The state by which the choice is remembered if it fails."""

    @property
    def claim(self) -> int:
        return self.ask.claim


class Search:
    """A walk through the choices of one attempt."""

    def __init__(self, shape: ClaimShape, pattern: Pattern, state: NodeState, step_limit: int = STEP_LIMIT) -> None:
        self.attempt = SearchAttempt(shape, pattern, state)
        self.steps = 0
        """Devices tried and choices opened."""
        self._step_limit = step_limit
        self._claims = shape.claims
        self._chosen = [[0] * len(claim.requests) for claim in shape.claims]
        self._stack: list[_Alternatives | _Devices] = []
        self._exceeding = 0
        self._risky: list[list[bool]] = []
        self._bounds = SearchBounds(self.attempt)
        self._failed_states: FailedStates | None = None
        self._interchangeable: InterchangeableSlots | None = None

    def run(self) -> Verdict:
        """Upstream's answer."""
        stop = first_problem(self.attempt)
        if stop is not None:
            return stop
        self._risky = risks(self.attempt)
        if not any(map(any, self._risky)) and not self._bounds.may_fit(0, 0):
            return self._no_fit()
        way: _NextMove = self._enter(0, 0)
        while way is not _Move.DONE:
            if isinstance(way, Stop | Undecided):
                return way
            if way is _Move.ON:
                way = self._try_next()
            elif self._stack:
                way = self._backtrack(way)
            else:
                return self._no_fit()
        return Solution(tuple(map(tuple, self.attempt.results)), tuple(map(tuple, self._chosen)))

    def _no_fit(self) -> NoFit:
        return NoFit(any(span.status is PoolStatus.INVALID for span in self.attempt.layout.pools))

    # --- forward -----------------------------------------------------------------------------------------------------

    def _enter(self, claim: int, request: int) -> _NextMove:
        """Go on with a request; the ones before it are satisfied."""
        while claim < len(self._claims) and request >= len(self._claims[claim].requests):
            claim, request = claim + 1, 0
        if claim >= len(self._claims):
            return _Move.DONE
        wanted = self._claims[claim].requests[request]
        if wanted.is_prioritized_list:
            self._stack.append(_Alternatives(claim, request))
        return self._enter_subrequest(request, wanted.subrequests[0])

    def _enter_subrequest(self, request: int, ask: Subrequest) -> _NextMove:
        self._chosen[ask.claim][request] = ask.number
        if ask.all and not self.attempt.need[ask.number]:
            return _Move.FAILED
        return self._next_device(request, ask, 0, 0)

    def _next_device(self, request: int, ask: Subrequest, position: int, start: int) -> _NextMove:
        """Go on with an ask that has ``position`` devices; the next must be in slot ``start`` or later."""
        attempt = self.attempt
        need = attempt.need[ask.number] - position
        if need <= 0:
            return self._enter(ask.claim, request + 1)
        if len(attempt.results[ask.claim]) + need > MAX_DEVICES_PER_CLAIM:
            self._exceeding = ask.claim
            return _Move.EXCEEDED
        if self.steps >= self._step_limit:
            return Undecided(ask.claim, ask.number, self.steps)
        self.steps += 1
        ahead = -1 << start
        candidates = attempt.candidates[ask.number] & ahead
        if ask.all:
            self._stack.append(_Devices(request, ask, position, candidates & -candidates, 0))
            return _Move.ON
        ahead &= ~attempt.unavailable(ask)
        candidates &= ahead
        devices = _Devices(request, ask, position, candidates, attempt.pattern.failing[ask.number] & ahead)
        if self._failed_states is not None:
            if self._risky[ask.claim][request]:
                devices.key = self._failed_states.exact_key(ask, position, start)
            else:
                devices.key = self._failed_states.key(ask, position, start)
                if not self._bounds.may_fit(ask.claim, request + 1, (ask, need, candidates)):
                    return _Move.FAILED
            if devices.key in self._failed_states.known:
                return _Move.FAILED
        self._stack.append(devices)
        return _Move.ON

    def _try_next(self) -> _NextMove:
        """Try the next device of the choice on top of the stack."""
        devices = self._stack[-1]
        assert isinstance(devices, _Devices)
        ask = devices.ask
        while ahead := devices.remaining | devices.poison:
            bit = ahead & -ahead
            slot = bit.bit_length() - 1
            if bit & devices.poison:
                return Stop(AbortCause.SELECTOR, ask.claim, ask.number, slot)
            if self.steps >= self._step_limit:
                return Undecided(ask.claim, ask.number, self.steps)
            self.steps += 1
            devices.remaining ^= bit
            taken = self.attempt.take(ask, slot)
            if isinstance(taken, TakenDevice):
                devices.taken = taken
                return self._next_device(devices.request, ask, devices.position + 1, slot + 1)
            if taken is Rejection.CONSTRAINT and ask.all:
                return Stop(AbortCause.CONSTRAINT_WITH_ALL, ask.claim, ask.number, slot)
            self._skip_interchangeable(devices, slot)
        self._stack.pop()
        if self._failed_states is not None and devices.key is not None:
            self._failed_states.known.add(devices.key)
        return _Move.FAILED

    # --- back --------------------------------------------------------------------------------------------------------

    def _backtrack(self, way: _Move) -> _NextMove:
        """The branch of the choice on top of the stack failed."""
        if self._failed_states is None:
            self._failed_states = FailedStates(self.attempt)
            self._interchangeable = InterchangeableSlots(self.attempt)
        top = self._stack[-1]
        if way is _Move.EXCEEDED and top.claim != self._exceeding:
            # Nothing that another claim chooses makes a claim smaller. Upstream tries all the same.
            way = _Move.FAILED
        if isinstance(top, _Alternatives):
            return self._next_alternative(top, way)
        assert top.taken is not None
        slot = top.taken.slot
        self.attempt.undo(top.taken)
        if way is _Move.EXCEEDED or top.ask.all:
            self._stack.pop()
            return way
        self._skip_interchangeable(top, slot)
        return _Move.ON

    def _next_alternative(self, alternatives: _Alternatives, way: _Move) -> _NextMove:
        if way is _Move.FAILED:
            alternatives.all_exceeded = False
        asks = self._claims[alternatives.claim].requests[alternatives.request].subrequests
        alternatives.current += 1
        if alternatives.current < len(asks):
            return self._enter_subrequest(alternatives.request, asks[alternatives.current])
        self._stack.pop()
        return _Move.EXCEEDED if alternatives.all_exceeded else _Move.FAILED

    def _skip_interchangeable(self, devices: _Devices, slot: int) -> None:
        if self._interchangeable is not None and not self._risky[devices.claim][devices.request]:
            devices.remaining &= ~self._interchangeable.of(slot, self.attempt.touched)
