"""Depth-first search for devices: the first solution in upstream's order, without upstream's exponential run time.

The order is that of a depth-first search over claims, requests, alternatives and devices, in which a request takes its
devices in increasing order and the first complete solution wins. Only branches without that solution are pruned: those
that `bounds` proves infeasible, those that differ from a failed one only by interchangeable devices, and states that
failed before (`symmetry`). Apart from one evaluation of the bounds, pruning starts after the first dead end, because
most searches have none.

*Hazards* are errors that upstream raises when the search reaches them: a selector, a capacity or a derived attribute
that fails on a device, and a constraint that rejects a device of ``allocationMode: All``. Whether they are reached
depends on the order of devices. While a hazard may follow, only states that failed before in exactly the same form are
pruned.

The stack is explicit, because a pod may request more devices than Python's recursion limit allows.
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
    """The first problem of the claims, or ``None`` if the search can start."""
    for number, claim in enumerate(attempt.shape.claims):
        least = 0
        for request in claim.requests:
            stop = _of_request(attempt, number, request)
            if stop is not None:
                return stop
            before = least
            least += min(attempt.need[subrequest.number] for subrequest in request.subrequests)
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
    for subrequest in request.subrequests:
        if subrequest.problem is not None:
            return Stop(subrequest.problem.cause, claim, subrequest.number, problem=subrequest.problem)
        if subrequest.all and (stop := _unusable_all(attempt, subrequest)) is not None:
            return stop
    return None


def _unusable_all(attempt: SearchAttempt, subrequest: Subrequest) -> Stop | None:
    """The error if the devices of ``All`` cannot be determined, in the order of the pools."""
    failing = attempt.pattern.failing[subrequest.number]
    for number, span in enumerate(attempt.layout.pools):
        if span.status is PoolStatus.INCOMPLETE:
            return Stop(AbortCause.POOL_INCOMPLETE, subrequest.claim, subrequest.number, pool=number)
        if span.status is PoolStatus.INVALID:
            return Stop(AbortCause.POOL_INVALID, subrequest.claim, subrequest.number, pool=number)
        bad = failing & ((1 << span.stop) - (1 << span.start))
        if bad:
            return _device_failure(attempt, subrequest, (bad & -bad).bit_length() - 1)
    return None


def _device_failure(attempt: SearchAttempt, subrequest: Subrequest, slot: int) -> Stop:
    """The error of a selector or the capacity on a device."""
    unmeasurable = attempt.pattern.profiles[slot].unmeasurable >> subrequest.number & 1
    cause = AbortCause.CAPACITY if unmeasurable else AbortCause.SELECTOR
    return Stop(cause, subrequest.claim, subrequest.number, slot)


def risks(attempt: SearchAttempt) -> list[list[bool]]:
    """Per claim and request, whether it or a later one may raise an error (a hazard, see the module)."""
    found = [[False] * len(claim.requests) for claim in attempt.shape.claims]
    risky = False
    for number, claim in reversed(list(enumerate(attempt.shape.claims))):
        for position, request in reversed(list(enumerate(claim.requests))):
            risky = risky or any(
                (subrequest.all and subrequest.constraints)
                or (attempt.pattern.failing[subrequest.number] | attempt.pattern.hazards[subrequest.number])
                & (-1 if subrequest.admin else ~attempt.in_use)
                for subrequest in request.subrequests
            )
            found[number][position] = risky
    return found


#: Maximum number of steps (devices tried and choices opened) of a search; about ten seconds in the worst case.
STEP_LIMIT: Final = 200_000


class _Move(Enum):
    """The next move of the search."""

    CONTINUE = "try the next device of the choice on top of the stack"
    DONE = "every request is satisfied"
    FAILED = "this branch has no solution: undo the last choice"
    EXCEEDED = "this branch needs more than 32 devices in one claim: only another alternative can help"


#: The next move, or the verdict that ends the search early.
_NextMove: TypeAlias = _Move | Stop | Undecided


class _Alternatives:
    """A choice on the stack: the subrequest of a firstAvailable request that is being tried."""

    __slots__ = ("all_exceeded", "claim", "current", "request")

    def __init__(self, claim: int, request: int) -> None:
        self.claim = claim
        self.request = request
        self.current = 0
        self.all_exceeded = True


class _Devices:
    """A choice on the stack: the candidate devices of a subrequest, one of which is being tried."""

    __slots__ = ("failing", "key", "position", "remaining", "request", "subrequest", "taken")

    def __init__(self, request: int, subrequest: Subrequest, position: int, remaining: int, failing: int) -> None:
        self.request = request
        self.subrequest = subrequest
        self.position = position
        """Number of devices that the subrequest already has."""
        self.remaining = remaining
        self.failing = failing
        """Slots on which a selector or the capacity fails."""
        self.taken: TakenDevice | None = None
        """The device that is being tried."""
        self.key: object = None
        """The key under which the state is stored if the choice fails."""

    @property
    def claim(self) -> int:
        return self.subrequest.claim


class Search:
    """A depth-first search over the choices of one attempt."""

    def __init__(self, shape: ClaimShape, pattern: Pattern, state: NodeState, step_limit: int = STEP_LIMIT) -> None:
        self.attempt = SearchAttempt(shape, pattern, state)
        self.steps = 0
        """Number of devices tried and choices opened."""
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
        """Search, and return the same verdict as upstream."""
        stop = first_problem(self.attempt)
        if stop is not None:
            return stop
        self._risky = risks(self.attempt)
        if not any(map(any, self._risky)) and not self._bounds.may_fit(0, 0):
            return self._no_fit()
        move: _NextMove = self._enter(0, 0)
        while move is not _Move.DONE:
            if isinstance(move, Stop | Undecided):
                return move
            if move is _Move.CONTINUE:
                move = self._try_next()
            elif self._stack:
                move = self._backtrack(move)
            else:
                return self._no_fit()
        return Solution(tuple(map(tuple, self.attempt.results)), tuple(map(tuple, self._chosen)))

    def _no_fit(self) -> NoFit:
        return NoFit(any(span.status is PoolStatus.INVALID for span in self.attempt.layout.pools))

    # --- forward -----------------------------------------------------------------------------------------------------

    def _enter(self, claim: int, request: int) -> _NextMove:
        """Continue with a request; the ones before it are satisfied."""
        while claim < len(self._claims) and request >= len(self._claims[claim].requests):
            claim, request = claim + 1, 0
        if claim >= len(self._claims):
            return _Move.DONE
        wanted = self._claims[claim].requests[request]
        if wanted.is_prioritized_list:
            self._stack.append(_Alternatives(claim, request))
        return self._enter_subrequest(request, wanted.subrequests[0])

    def _enter_subrequest(self, request: int, subrequest: Subrequest) -> _NextMove:
        self._chosen[subrequest.claim][request] = subrequest.number
        if subrequest.all and not self.attempt.need[subrequest.number]:
            return _Move.FAILED
        return self._next_device(request, subrequest, 0, 0)

    def _next_device(self, request: int, subrequest: Subrequest, position: int, start: int) -> _NextMove:
        """Continue with a subrequest that has ``position`` devices; the next one must be in slot ``start`` or later."""
        attempt = self.attempt
        need = attempt.need[subrequest.number] - position
        if need <= 0:
            return self._enter(subrequest.claim, request + 1)
        if len(attempt.results[subrequest.claim]) + need > MAX_DEVICES_PER_CLAIM:
            self._exceeding = subrequest.claim
            return _Move.EXCEEDED
        if self.steps >= self._step_limit:
            return Undecided(subrequest.claim, subrequest.number, self.steps)
        self.steps += 1
        ahead = -1 << start
        candidates = attempt.candidates[subrequest.number] & ahead
        if subrequest.all:
            self._stack.append(_Devices(request, subrequest, position, candidates & -candidates, 0))
            return _Move.CONTINUE
        ahead &= ~attempt.unavailable(subrequest)
        candidates &= ahead
        devices = _Devices(
            request, subrequest, position, candidates, attempt.pattern.failing[subrequest.number] & ahead
        )
        if self._failed_states is not None:
            if self._risky[subrequest.claim][request]:
                devices.key = self._failed_states.exact_key(subrequest, position, start)
            else:
                devices.key = self._failed_states.key(subrequest, position, start)
                if not self._bounds.may_fit(subrequest.claim, request + 1, (subrequest, need, candidates)):
                    return _Move.FAILED
            if devices.key in self._failed_states.known:
                return _Move.FAILED
        self._stack.append(devices)
        return _Move.CONTINUE

    def _try_next(self) -> _NextMove:
        """Try the next device of the choice on top of the stack."""
        devices = self._stack[-1]
        assert isinstance(devices, _Devices)
        subrequest = devices.subrequest
        while ahead := devices.remaining | devices.failing:
            bit = ahead & -ahead
            slot = bit.bit_length() - 1
            if bit & devices.failing:
                return _device_failure(self.attempt, subrequest, slot)
            if self.steps >= self._step_limit:
                return Undecided(subrequest.claim, subrequest.number, self.steps)
            self.steps += 1
            devices.remaining ^= bit
            taken = self.attempt.take(subrequest, slot)
            if isinstance(taken, TakenDevice):
                devices.taken = taken
                return self._next_device(devices.request, subrequest, devices.position + 1, slot + 1)
            if taken is Rejection.ERROR:
                return Stop(AbortCause.DERIVED_ATTRIBUTE, subrequest.claim, subrequest.number, slot)
            if taken is Rejection.CONSTRAINT and subrequest.all:
                return Stop(AbortCause.CONSTRAINT_WITH_ALL, subrequest.claim, subrequest.number, slot)
            self._skip_interchangeable(devices, slot)
        self._stack.pop()
        if self._failed_states is not None and devices.key is not None:
            self._failed_states.known.add(devices.key)
        return _Move.FAILED

    # --- backtracking ------------------------------------------------------------------------------------------------

    def _backtrack(self, move: _Move) -> _NextMove:
        """Undo the choice on top of the stack, whose branch failed."""
        if self._failed_states is None:
            self._failed_states = FailedStates(self.attempt)
            self._interchangeable = InterchangeableSlots(self.attempt)
        top = self._stack[-1]
        if move is _Move.EXCEEDED and top.claim != self._exceeding:
            # Choices of other claims do not reduce the number of devices of this claim. Upstream tries them anyway.
            move = _Move.FAILED
        if isinstance(top, _Alternatives):
            return self._next_alternative(top, move)
        assert top.taken is not None
        slot = top.taken.slot
        self.attempt.undo(top.taken)
        if move is _Move.EXCEEDED or top.subrequest.all:
            self._stack.pop()
            return move
        self._skip_interchangeable(top, slot)
        return _Move.CONTINUE

    def _next_alternative(self, alternatives: _Alternatives, move: _Move) -> _NextMove:
        if move is _Move.FAILED:
            alternatives.all_exceeded = False
        subrequests = self._claims[alternatives.claim].requests[alternatives.request].subrequests
        alternatives.current += 1
        if alternatives.current < len(subrequests):
            return self._enter_subrequest(alternatives.request, subrequests[alternatives.current])
        self._stack.pop()
        return _Move.EXCEEDED if alternatives.all_exceeded else _Move.FAILED

    def _skip_interchangeable(self, devices: _Devices, slot: int) -> None:
        if self._interchangeable is not None and not self._risky[devices.claim][devices.request]:
            devices.remaining &= ~self._interchangeable.of(slot, self.attempt.touched)
