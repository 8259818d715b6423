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
from typing import Final

from allotment.engine.bounds import Bounds
from allotment.engine.layout import NodeState, available
from allotment.engine.outcome import Cause
from allotment.engine.pattern import Pattern
from allotment.engine.pools import PoolStatus
from allotment.engine.requests import DEVICES_PER_CLAIM, Ask, Shape
from allotment.engine.symmetry import Refused, Twins
from allotment.engine.verdict import NoFit, Pick, Solution, Stop, Verdict

#: Steps (devices tried and choices opened) before a search gives up; some ten seconds at worst.
STEP_LIMIT: Final = 200_000


class _Way(Enum):
    """Where the search goes next."""

    ON = "try what is next in the choice on top of the stack"
    DONE = "every request is satisfied"
    FAILED = "this branch has no solution: take back the last choice"
    EXCEEDED = "this branch needs more than 32 devices in one claim: only another alternative can help"


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

    __slots__ = ("ask", "before", "charged", "claim", "key", "poison", "position", "remaining", "request", "slot")

    def __init__(self, claim: int, request: int, ask: Ask, position: int, remaining: int, poison: int) -> None:
        self.claim = claim
        self.request = request
        self.ask = ask
        self.position = position
        """How many devices the ask has already."""
        self.remaining = remaining
        self.poison = poison
        """Slots on which a selector fails."""
        self.slot = -1
        """The one being tried, if any; then the search's state before is in ``before``."""
        self.before: tuple[int, int, int, list[int]] = (0, 0, 0, [])
        self.charged = False
        self.key: object = None
        """The state by which the choice is remembered if it fails."""


class Search:
    """One attempt to satisfy a shape on a pattern in a state. `bounds` and `symmetry` read its progress."""

    def __init__(self, shape: Shape, pattern: Pattern, state: NodeState, step_limit: int = STEP_LIMIT) -> None:
        layout = pattern.layout
        self.shape = shape
        self.pattern = pattern
        self.layout = layout
        self.in_use = state.in_use
        self.taken = 0
        """Slots chosen in this attempt, for any claim; shareable ones never are."""
        self.mine = [0] * len(shape.claims)
        """The same, per claim."""
        self.touched = 0
        """Slots chosen in this attempt, shareable ones too."""
        self.bound = [-1] * len(shape.constraints)
        """Per constraint: what all devices so far have in common (match) or use up (distinct); -1 before the first."""
        self.constraints_of = [
            tuple(sorted({c for request in claim.requests for ask in request.asks for c in ask.constraints}))
            for claim in shape.claims
        ]
        self.left = available(layout, state) if layout.counters else []
        """Per counter, what is left."""
        self.shared_before = sum(1 << slot for slot, _ in state.consumed) & layout.shareable
        self.blocked = self._overdrawn()
        self.room = self._room(state)
        """What is left of the capacities of devices that are, or once were, shareable, by slot."""
        self.candidates = self._candidates(state)
        """Per ask the slots that suit it in this state, in use or not; for ``All`` those that it must take."""
        self.need = [ask.wanted for ask in shape.asks]
        self.results: list[list[Pick]] = [[] for _ in shape.claims]
        self._chosen = [[0] * len(claim.requests) for claim in shape.claims]
        self._stack: list[_Alternatives | _Devices] = []
        self.steps = 0
        self._step_limit = step_limit
        self._exceeding = 0
        self._bounds = Bounds(self)
        self._risky: list[list[bool]] = []
        self._refused: Refused | None = None
        self._twins: Twins | None = None

    # --- what the node has left --------------------------------------------------------------------------------------

    def _overdrawn(self) -> int:
        """Slots that draw from counters of a pool in which any counter is overdrawn: upstream refuses them all."""
        pools = {self.layout.counters[i].pool for i, left in enumerate(self.left) if left < 0}
        spans = (self.layout.pools[number] for number in pools)
        mask = sum((1 << span.stop) - (1 << span.start) for span in spans)
        return mask & self.layout.consumers & ~self.shared_before

    def _room(self, state: NodeState) -> dict[int, list[int]]:
        traits = self.layout.traits
        room = {slot: list(traits[slot].limits.values()) for slot in slots_of(self.layout.shareable)}
        for slot, consumed in state.consumed:
            limits = traits[slot].limits.values()
            room[slot] = [limit - amount for limit, amount in zip(limits, consumed, strict=True)]
        return room

    def _candidates(self, state: NodeState) -> list[int]:
        def full(ask: int) -> int:
            return sum(1 << slot for slot, _ in state.consumed if not self.has_room(slot, ask))

        pattern = self.pattern
        leave_out = self.shape.release.all_leaves_out_full
        return [
            pattern.listed[ask.number] & ~(full(ask.number) if leave_out else 0)
            if ask.all
            else pattern.candidates[ask.number] & ~self.blocked & ~full(ask.number)
            for ask in self.shape.asks
        ]

    def has_room(self, slot: int, ask: int) -> bool:
        """Whether what is left of a device's capacities suffices for an ask."""
        amounts = self.pattern.profiles[slot].amounts[ask]
        return all(amount <= left for amount, left in zip(amounts, self.room[slot], strict=False))

    # --- the whole attempt -----------------------------------------------------------------------------------------

    def run(self) -> Verdict:
        """Upstream's answer."""
        stop = self._prepare()
        if stop is not None:
            return stop
        self._risky = self._risks()
        if not any(map(any, self._risky)) and not self._bounds.may_fit(0, 0):
            return self._no_fit()
        return self._find()

    def _no_fit(self) -> NoFit:
        return NoFit(any(span.status is PoolStatus.INVALID for span in self.layout.pools))

    def _prepare(self) -> Stop | None:
        """Upstream's checks before the search, claim by claim and request by request; the first problem ends it."""
        for number, claim in enumerate(self.shape.claims):
            least = 0
            for request in claim.requests:
                if request.fault is not None:
                    return Stop(request.fault.cause, number, request.asks[0].number, fault=request.fault)
                for ask in request.asks:
                    if ask.fault is not None:
                        return Stop(ask.fault.cause, number, ask.number, fault=ask.fault)
                    if ask.all and (stop := self._list_all(ask)) is not None:
                        return stop
                before = least
                least += min(self.need[ask.number] for ask in request.asks)
                if least > DEVICES_PER_CLAIM and self.shape.release.limit_by_request:
                    ask = request.asks[0]
                    return Stop(Cause.TOO_MANY_DEVICES, number, ask.number, devices=least, devices_before=before)
            if least > DEVICES_PER_CLAIM:
                return Stop(Cause.TOO_MANY_DEVICES, number, devices=least)
            if claim.fault is not None:
                return Stop(claim.fault.cause, number, fault=claim.fault)
        return None

    def _list_all(self, ask: Ask) -> Stop | None:
        """Count the devices that ``All`` means: every pool must be whole, and no selector may fail."""
        poison = self.pattern.poison[ask.number]
        for number, span in enumerate(self.layout.pools):
            if span.status is PoolStatus.INCOMPLETE:
                return Stop(Cause.POOL_INCOMPLETE, ask.claim, ask.number, pool=number)
            if span.status is PoolStatus.INVALID:
                return Stop(Cause.POOL_INVALID, ask.claim, ask.number, pool=number)
            bad = poison & ((1 << span.stop) - (1 << span.start))
            if bad:
                return Stop(Cause.SELECTOR, ask.claim, ask.number, _lowest(bad))
        self.need[ask.number] = self.candidates[ask.number].bit_count()
        return None

    def _risks(self) -> list[list[bool]]:
        """Per claim and request, whether a hazard may lie in it or in any later one."""
        risks = [[False] * len(claim.requests) for claim in self.shape.claims]
        risky = False
        for number, claim in reversed(list(enumerate(self.shape.claims))):
            for position, request in reversed(list(enumerate(claim.requests))):
                risky = risky or any(
                    (ask.all and ask.constraints)
                    or self.pattern.poison[ask.number] & (-1 if ask.admin else ~self.in_use)
                    for ask in request.asks
                )
                risks[number][position] = risky
        return risks

    # --- depth first -------------------------------------------------------------------------------------------------

    def _find(self) -> Verdict:
        way: _Way | Stop = self._enter(0, 0)
        while way is not _Way.DONE:
            if isinstance(way, Stop):
                return way
            if way is _Way.ON:
                way = self._try_next()
            elif self._stack:
                way = self._take_back(way)
            else:
                return self._no_fit()
        return Solution(tuple(map(tuple, self.results)), tuple(map(tuple, self._chosen)))

    def _enter(self, claim: int, request: int) -> _Way | Stop:
        """Go on with a request; the ones before it are satisfied."""
        claims = self.shape.claims
        while request >= len(claims[claim].requests) if claim < len(claims) else False:
            claim, request = claim + 1, 0
        if claim >= len(claims):
            return _Way.DONE
        wanted = claims[claim].requests[request]
        if wanted.alternatives:
            self._stack.append(_Alternatives(claim, request))
        return self._enter_ask(claim, request, wanted.asks[0])

    def _enter_ask(self, claim: int, request: int, ask: Ask) -> _Way | Stop:
        self._chosen[claim][request] = ask.number
        if ask.all and not self.need[ask.number]:
            return _Way.FAILED
        return self._next_device(claim, request, ask, 0, 0)

    def _next_device(self, claim: int, request: int, ask: Ask, position: int, start: int) -> _Way | Stop:
        """Go on with an ask that has ``position`` devices; the next must be in slot ``start`` or later."""
        need = self.need[ask.number] - position
        if need <= 0:
            return self._enter(claim, request + 1)
        if len(self.results[claim]) + need > DEVICES_PER_CLAIM:
            self._exceeding = claim
            return _Way.EXCEEDED
        if self.steps >= self._step_limit:
            return Stop(Cause.WORK_LIMIT, claim, ask.number)
        self.steps += 1
        ahead = -1 << start
        candidates = self.candidates[ask.number] & ahead
        if ask.all:
            self._stack.append(_Devices(claim, request, ask, position, candidates & -candidates, 0))
            return _Way.ON
        ahead &= ~self.mine[claim] if ask.admin else ~(self.in_use | self.taken)
        candidates &= ahead
        devices = _Devices(claim, request, ask, position, candidates, self.pattern.poison[ask.number] & ahead)
        if self._refused is not None:
            if self._risky[claim][request]:
                devices.key = self._refused.exact_key(claim, ask, position, start)
            else:
                devices.key = self._refused.key(claim, ask, position, start)
                if not self._bounds.may_fit(claim, request + 1, (ask, need, candidates)):
                    return _Way.FAILED
            if devices.key in self._refused.known:
                return _Way.FAILED
        self._stack.append(devices)
        return _Way.ON

    def _try_next(self) -> _Way | Stop:
        """Try the next device of the choice on top of the stack."""
        devices = self._stack[-1]
        assert isinstance(devices, _Devices)
        ask = devices.ask
        while ahead := devices.remaining | devices.poison:
            bit = ahead & -ahead
            slot = bit.bit_length() - 1
            if bit & devices.poison:
                return Stop(Cause.SELECTOR, devices.claim, ask.number, slot)
            if self.steps >= self._step_limit:
                return Stop(Cause.WORK_LIMIT, devices.claim, ask.number)
            self.steps += 1
            devices.remaining ^= bit
            chosen = self._choose(devices, slot, bit)
            if isinstance(chosen, Stop):
                return chosen
            if chosen:
                return self._next_device(devices.claim, devices.request, ask, devices.position + 1, slot + 1)
            self._skip_twins(devices, slot)
        self._stack.pop()
        if self._refused is not None and devices.key is not None:
            self._refused.known.add(devices.key)
        return _Way.FAILED

    def _take_back(self, way: _Way) -> _Way | Stop:
        """The branch of the choice on top of the stack failed."""
        if self._refused is None:
            self._refused = Refused(self)
            self._twins = Twins(self)
        top = self._stack[-1]
        if way is _Way.EXCEEDED and top.claim != self._exceeding:
            # Another choice of the claim before changes nothing about a claim that is too large, but upstream looks.
            way = _Way.FAILED
        if isinstance(top, _Alternatives):
            return self._next_alternative(top, way)
        slot = top.slot
        self._undo(top)
        if way is _Way.EXCEEDED or top.ask.all:
            self._stack.pop()
            return way
        self._skip_twins(top, slot)
        return _Way.ON

    def _next_alternative(self, alternatives: _Alternatives, way: _Way) -> _Way | Stop:
        if way is _Way.FAILED:
            alternatives.all_exceeded = False
        asks = self.shape.claims[alternatives.claim].requests[alternatives.request].asks
        alternatives.current += 1
        if alternatives.current < len(asks):
            return self._enter_ask(alternatives.claim, alternatives.request, asks[alternatives.current])
        self._stack.pop()
        return _Way.EXCEEDED if alternatives.all_exceeded else _Way.FAILED

    def _skip_twins(self, devices: _Devices, slot: int) -> None:
        if self._twins is not None and not self._risky[devices.claim][devices.request]:
            devices.remaining &= ~self._twins.of(slot, self.touched)

    # --- one device --------------------------------------------------------------------------------------------------

    def _choose(self, devices: _Devices, slot: int, bit: int) -> bool | Stop:
        """Take a device for an ask, if counters, capacity and constraints admit it."""
        ask = devices.ask
        shareable = bool(bit & self.layout.shareable)
        if ask.all:
            unavailable = self.mine[devices.claim] if ask.admin else self.in_use | self.taken
            if bit & (unavailable | self.blocked) or not bit & self.pattern.eligible[ask.number]:
                return False
        elif shareable and not self.has_room(slot, ask.number):
            return False
        uses = self.layout.uses[slot]
        # A shareable device draws from its counters once, however many shares it has.
        charged = bool(uses) and not (shareable and bit & (self.shared_before | self.touched))
        if charged and any(self.left[counter] < amount for counter, amount in uses):
            return False
        bound = self._bind(ask, slot, bit)
        if bound is None:
            return Stop(Cause.CONSTRAINT_WITH_ALL, devices.claim, ask.number, slot) if ask.all else False
        if ask.all and slot in self.room and not self.has_room(slot, ask.number):
            return False
        devices.slot = slot
        devices.charged = charged
        devices.before = (self.taken, self.mine[devices.claim], self.touched, self.bound)
        self.bound = bound
        self.touched |= bit
        if charged:
            for counter, amount in uses:
                self.left[counter] -= amount
        if shareable:
            room = self.room[slot]
            for i, amount in enumerate(self.pattern.profiles[slot].amounts[ask.number]):
                room[i] -= amount
        else:
            self.taken |= bit
            self.mine[devices.claim] |= bit
        self.results[devices.claim].append(Pick(ask.number, slot))
        return True

    def _bind(self, ask: Ask, slot: int, bit: int) -> list[int] | None:
        """What the constraints are bound to with the device added, or ``None`` if one refuses it."""
        if not ask.constraints:
            return self.bound
        bound = self.bound.copy()
        for number in ask.constraints:
            if not bit & self.pattern.present[number]:
                return None
            value = self.pattern.values[number][slot]
            before = bound[number]
            if before < 0:
                bound[number] = value
            elif self.shape.constraints[number].distinct:
                if not value or value & before:
                    return None
                bound[number] = value | before
            elif not value & before:
                return None
            else:
                bound[number] = value & before
        return bound

    def _undo(self, devices: _Devices) -> None:
        slot = devices.slot
        self.results[devices.claim].pop()
        self.taken, self.mine[devices.claim], self.touched, self.bound = devices.before
        if devices.charged:
            for counter, amount in self.layout.uses[slot]:
                self.left[counter] += amount
        if self.layout.shareable >> slot & 1:
            room = self.room[slot]
            for i, amount in enumerate(self.pattern.profiles[slot].amounts[devices.ask.number]):
                room[i] += amount
        devices.slot = -1


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def slots_of(mask: int) -> list[int]:
    """The slots in a mask, ascending."""
    slots = []
    while mask:
        lowest = mask & -mask
        slots.append(lowest.bit_length() - 1)
        mask ^= lowest
    return slots
