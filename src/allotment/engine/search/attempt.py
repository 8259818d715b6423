"""An attempt in progress: what the node has left, and what has been chosen so far.

Taking a device for an ask checks what depends on other choices (capacity, counters, constraints), books it, and gives
back what is needed to undo it. `search` walks, `bounds` and `symmetry` look on.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from allotment.engine.claims.requests import ClaimShape, Subrequest
from allotment.engine.cluster.layout import NodeState, available
from allotment.engine.search.pattern import Pattern
from allotment.engine.search.verdict import Pick


class Rejection(Enum):
    """Why a device cannot be taken."""

    UNAVAILABLE = "it is in use, tainted, or the counters or capacities left do not suffice"
    CONSTRAINT = "a constraint of the claim does not admit it"


class TakenDevice(NamedTuple):
    """A device that was taken, and the state before."""

    ask: Subrequest
    slot: int
    charged: bool
    """Whether counters were drawn."""
    taken: int
    mine: int
    touched: int
    bound: list[int]


class SearchAttempt:
    """A shape on a pattern in a state."""

    def __init__(self, shape: ClaimShape, pattern: Pattern, state: NodeState) -> None:
        layout = pattern.layout
        self.shape = shape
        self.pattern = pattern
        self.layout = layout
        self.in_use = state.in_use
        """Slots taken by other pods."""
        self.taken = 0
        """Slots taken in this attempt, for any claim; shareable ones never are."""
        self.taken_by_claim = [0] * len(shape.claims)
        """The same, per claim."""
        self.touched = 0
        """Slots taken in this attempt, shareable ones too."""
        self.bound = [-1] * len(shape.constraints)
        """Per constraint: what all devices so far have in common (match) or use up (distinct); -1 before the first."""
        self.left = available(layout, state) if layout.counters else []
        """Per counter, what is left."""
        self.shared_before = sum(1 << slot for slot, _ in state.consumed) & layout.shareable
        """Shareable slots that draw from their counters already."""
        self.blocked = self._overdrawn()
        """Slots that draw from an overdrawn pool."""
        self.room = self._room(state)
        """What is left of the capacities of devices that are, or once were, shareable, by slot."""
        self.candidates = self._candidates(state)
        """Per ask the slots that suit it in this state, in use or not; for ``All`` those that it must take."""
        self.need = [
            self.candidates[ask.number].bit_count() if ask.all else ask.device_count for ask in shape.subrequests
        ]
        """Per ask how many devices it takes."""
        self.results: list[list[Pick]] = [[] for _ in shape.claims]
        """Per claim what was taken, in order."""

    # --- what the node has left --------------------------------------------------------------------------------------

    def _overdrawn(self) -> int:
        """Upstream refuses every device that draws from a pool in which any counter is overdrawn."""
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
        leave_out = self.shape.release.all_skips_full_devices
        return [
            pattern.listed[ask.number] & ~(full(ask.number) if leave_out else 0)
            if ask.all
            else pattern.candidates[ask.number] & ~self.blocked & ~full(ask.number)
            for ask in self.shape.subrequests
        ]

    def has_room(self, slot: int, ask: int) -> bool:
        """Whether what is left of a device's capacities suffices for an ask."""
        amounts = self.pattern.profiles[slot].amounts[ask]
        return all(amount <= left for amount, left in zip(amounts, self.room[slot], strict=False))

    def unavailable(self, ask: Subrequest) -> int:
        """Slots that an ask cannot take: those in use; with admin access, those that the same claim took (KEP-5018)."""
        return self.taken_by_claim[ask.claim] if ask.admin else self.in_use | self.taken

    # --- one device --------------------------------------------------------------------------------------------------

    def take(self, ask: Subrequest, slot: int) -> TakenDevice | Rejection:
        """Take a device for an ask. With ``All`` anything may be in the way; else the slot is available and eligible.

        The order of the checks is upstream's, as far as it tells: for ``All`` a constraint is an error, and what is
        checked before is not.
        """
        bit = 1 << slot
        shareable = bool(bit & self.layout.shareable)
        if ask.all:
            if bit & (self.unavailable(ask) | self.blocked) or not bit & self.pattern.eligible[ask.number]:
                return Rejection.UNAVAILABLE
        elif shareable and not self.has_room(slot, ask.number):
            return Rejection.UNAVAILABLE
        uses = self.layout.uses[slot]
        # A shareable device draws from its counters once, however many shares it has (KEP-5075).
        charged = bool(uses) and not (shareable and bit & (self.shared_before | self.touched))
        if charged and any(self.left[counter] < amount for counter, amount in uses):
            return Rejection.UNAVAILABLE
        bound = self._bind(ask, slot, bit)
        if bound is None:
            return Rejection.CONSTRAINT
        if ask.all and slot in self.room and not self.has_room(slot, ask.number):
            return Rejection.UNAVAILABLE
        before = TakenDevice(ask, slot, charged, self.taken, self.taken_by_claim[ask.claim], self.touched, self.bound)
        self.bound = bound
        self.touched |= bit
        if charged:
            self._draw(slot, 1)
        if shareable:
            self._consume(ask, slot, 1)
        else:
            self.taken |= bit
            self.taken_by_claim[ask.claim] |= bit
        self.results[ask.claim].append(Pick(ask.number, slot))
        return before

    def undo(self, before: TakenDevice) -> None:
        """Undo the last taking."""
        ask, slot, charged, self.taken, self.taken_by_claim[ask.claim], self.touched, self.bound = before
        if charged:
            self._draw(slot, -1)
        if self.layout.shareable >> slot & 1:
            self._consume(ask, slot, -1)
        self.results[ask.claim].pop()

    def _draw(self, slot: int, sign: int) -> None:
        for counter, amount in self.layout.uses[slot]:
            self.left[counter] -= sign * amount

    def _consume(self, ask: Subrequest, slot: int, sign: int) -> None:
        room = self.room[slot]
        for i, amount in enumerate(self.pattern.profiles[slot].amounts[ask.number]):
            room[i] -= sign * amount

    def _bind(self, ask: Subrequest, slot: int, bit: int) -> list[int] | None:
        """What the constraints are bound to with the device added, or ``None`` if one does not admit it."""
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


def slots_of(mask: int) -> list[int]:
    """The slots in a mask, ascending."""
    slots = []
    while mask:
        lowest = mask & -mask
        slots.append(lowest.bit_length() - 1)
        mask ^= lowest
    return slots
