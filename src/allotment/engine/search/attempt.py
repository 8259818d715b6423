"""The mutable state of a search: remaining resources of the node, and the devices chosen so far.

``SearchAttempt.take`` checks what depends on other choices (capacity, counters, constraints), records the choice and
returns the information to undo it. `depth_first` modifies the state, `bounds` and `symmetry` only read it.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from allotment.engine.claims.requests import ClaimShape, Subrequest
from allotment.engine.cluster.layout import NO_MEMBERS, NodeState, available, excluded_by_groups
from allotment.engine.search.pattern import Pattern
from allotment.engine.search.verdict import Pick


class Rejection(Enum):
    """The reason why a device cannot be taken."""

    UNAVAILABLE = (
        "it is in use or tainted, the remaining counters or capacities are not sufficient, or its compatibility groups "
        "exclude it"
    )
    CONSTRAINT = "it violates a constraint of the claim"
    ERROR = "a derived attribute of a constraint fails on it with an error"


class TakenDevice(NamedTuple):
    """A device that was taken, and the previous state for undoing it."""

    subrequest: Subrequest
    slot: int
    charged: bool
    """Whether the device consumed counters."""
    taken: int
    taken_by_claim: int
    touched: int
    bound: list[int]
    groups: list[int]


class SearchAttempt:
    """The state of a search for a shape on a node with a pattern."""

    def __init__(self, shape: ClaimShape, pattern: Pattern, state: NodeState) -> None:
        layout = pattern.layout
        self.shape = shape
        self.pattern = pattern
        self.layout = layout
        self.in_use = state.in_use
        """Slots that other pods use."""
        self.taken = 0
        """Slots taken in this attempt for any claim, without shareable devices."""
        self.taken_by_claim = [0] * len(shape.claims)
        """Slots taken in this attempt per claim, without shareable devices."""
        self.touched = 0
        """Slots taken in this attempt, including shareable devices."""
        self.bound = [-1] * len(shape.constraints)
        """Per constraint the values that all devices so far share (match) or use (distinct); -1 without devices."""
        self.left = available(layout, state) if layout.counters else []
        """Remaining amount of each counter."""
        self.groups = list(state.groups) or [NO_MEMBERS] * len(layout.group_sets)
        """Per group set the groups that its devices have in common, as in ``NodeState.groups``."""
        shared = sum(1 << slot for slot, _ in state.consumed)
        if shape.release.shares_charge_once:
            shared |= state.charged & ~state.in_use
        self.shared_before = shared & layout.shareable
        """Shareable slots that already consume their counters."""
        self.blocked = self._overdrawn()
        """Slots that consume counters of a pool with a negative counter."""
        self.room = self._room(state)
        """Remaining capacities by slot, of devices that are shareable or still have shares."""
        self.candidates = self._candidates(state)
        """Per subrequest the matching slots in this state, whether in use or not; for ``All`` the required slots."""
        self.need = [
            self.candidates[subrequest.number].bit_count() if subrequest.all else subrequest.device_count
            for subrequest in shape.subrequests
        ]
        """Number of devices per subrequest."""
        self.results: list[list[Pick]] = [[] for _ in shape.claims]
        """The devices taken per claim, in order."""

    # --- remaining resources -----------------------------------------------------------------------------------------

    def _overdrawn(self) -> int:
        """Slots that upstream rejects because a counter of their pool is negative."""
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
        def full(subrequest: int) -> int:
            return sum(1 << slot for slot, _ in state.consumed if not self.has_room(slot, subrequest))

        pattern = self.pattern
        leave_out = self.shape.release.all_skips_full_devices
        return [
            pattern.listed[subrequest.number] & ~(full(subrequest.number) if leave_out else 0)
            if subrequest.all
            else pattern.candidates[subrequest.number] & ~self.blocked & ~full(subrequest.number)
            for subrequest in self.shape.subrequests
        ]

    def has_room(self, slot: int, subrequest: int) -> bool:
        """Whether the remaining capacity of a device is sufficient for a subrequest."""
        amounts = self.pattern.profiles[slot].amounts[subrequest]
        return all(amount <= left for amount, left in zip(amounts, self.room[slot], strict=False))

    def unavailable(self, subrequest: Subrequest) -> int:
        """Slots that a subrequest cannot take: those in use, or with admin access those of its own claim (KEP-5018)."""
        return self.taken_by_claim[subrequest.claim] if subrequest.admin else self.in_use | self.taken

    # --- one device --------------------------------------------------------------------------------------------------

    def take(self, subrequest: Subrequest, slot: int) -> TakenDevice | Rejection:
        """Take a device for a subrequest, or return why it cannot be taken.

        Unless the mode is ``All``, the caller guarantees that the slot is available and eligible. The order of the
        checks is upstream's where it affects the result: for ``All`` a violated constraint is a fatal error, but the
        checks before it are not.
        """
        bit = 1 << slot
        shareable = bool(bit & self.layout.shareable)
        if subrequest.all:
            if (
                bit & (self.unavailable(subrequest) | self.blocked)
                or not bit & self.pattern.eligible[subrequest.number]
            ):
                return Rejection.UNAVAILABLE
        elif shareable and not self.has_room(slot, subrequest.number):
            return Rejection.UNAVAILABLE
        uses = self.layout.uses[slot]
        # A shareable device consumes its counters once, independent of its number of shares (KEP-5075).
        first_use = not (shareable and bit & (self.shared_before | self.touched))
        groups = self._grouped(slot) if first_use and self.layout.groups[slot] else self.groups
        if groups is None:
            return Rejection.UNAVAILABLE
        charged = bool(uses) and first_use
        if charged and any(self.left[counter] < amount for counter, amount in uses):
            return Rejection.UNAVAILABLE
        bound = self._bind(subrequest, slot, bit)
        if isinstance(bound, Rejection):
            return bound
        if subrequest.all and slot in self.room and not self.has_room(slot, subrequest.number):
            return Rejection.UNAVAILABLE
        before = TakenDevice(
            subrequest,
            slot,
            charged,
            self.taken,
            self.taken_by_claim[subrequest.claim],
            self.touched,
            self.bound,
            self.groups,
        )
        self.bound = bound
        self.groups = groups
        self.touched |= bit
        if charged:
            self._draw(slot, 1)
        if shareable:
            self._consume(subrequest, slot, 1)
        else:
            self.taken |= bit
            self.taken_by_claim[subrequest.claim] |= bit
        self.results[subrequest.claim].append(Pick(subrequest.number, slot))
        return before

    def undo(self, before: TakenDevice) -> None:
        """Undo the last `take`, which returned ``before``."""
        subrequest, slot, charged = before[:3]
        self.taken, self.taken_by_claim[subrequest.claim], self.touched, self.bound, self.groups = before[3:]
        if charged:
            self._draw(slot, -1)
        if self.layout.shareable >> slot & 1:
            self._consume(subrequest, slot, -1)
        self.results[subrequest.claim].pop()

    def _draw(self, slot: int, sign: int) -> None:
        for counter, amount in self.layout.uses[slot]:
            self.left[counter] -= sign * amount

    def _consume(self, subrequest: Subrequest, slot: int, sign: int) -> None:
        room = self.room[slot]
        for i, amount in enumerate(self.pattern.profiles[slot].amounts[subrequest.number]):
            room[i] -= sign * amount

    def _grouped(self, slot: int) -> list[int] | None:
        """The common groups with the device added, or ``None`` if its groups are not compatible."""
        groups = self.groups.copy()
        for number, mask in self.layout.groups[slot]:
            if not groups[number] & mask:
                return None
            groups[number] &= mask
        return groups

    def incompatible(self) -> int:
        """Slots whose compatibility groups exclude them now; shareable devices in use keep their groups."""
        excluded = excluded_by_groups(self.layout, self.groups)
        return excluded & ~(self.layout.shareable & (self.shared_before | self.touched))

    def _bind(self, subrequest: Subrequest, slot: int, bit: int) -> list[int] | Rejection:
        """The values of the constraints with the device added, or the reason why that is not possible."""
        if not subrequest.constraints:
            return self.bound
        bound = self.bound.copy()
        for number, source in zip(subrequest.constraints, subrequest.sources, strict=True):
            if not bit & self.pattern.present[source]:
                return Rejection.ERROR if bit & self.pattern.erring[source] else Rejection.CONSTRAINT
            value = self.pattern.values[source][slot]
            before = bound[number]
            if before < 0:
                bound[number] = value
            elif self.shape.constraints[number].distinct:
                if not value or value & before:
                    return Rejection.CONSTRAINT
                bound[number] = value | before
            elif not value & before:
                return Rejection.CONSTRAINT
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
