"""Counting bounds: bipartite matching and counter limits that prove infeasibility without a search.

A negative result means that no choice of devices can satisfy the demands; a positive result guarantees nothing. Without
counters, shared capacity and mixed constraints the result is exact, so that the search never backtracks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class SlotDemand(NamedTuple):
    """A number of devices from a set of slots (a bit mask)."""

    need: int
    slots: int


def can_match(demands: Sequence[SlotDemand]) -> bool:
    """Whether all demands can be satisfied together without using a slot twice (bipartite matching).

    >>> can_match([SlotDemand(2, 0b0111), SlotDemand(2, 0b0111)])
    False
    >>> can_match([SlotDemand(2, 0b0111), SlotDemand(1, 0b0011), SlotDemand(1, 0b1100)])
    True
    """
    union = total = 0
    for need, slots in demands:
        if need > slots.bit_count():
            return False
        union |= slots
        total += need
    if total > union.bit_count():
        return False
    if len(demands) < 2:
        return True
    assigned = [0] * len(demands)
    used = 0
    for number, (need, slots) in enumerate(demands):
        free = slots & ~used
        while need:
            if free:
                lowest = free & -free
                free ^= lowest
            elif not (lowest := _augment(demands, assigned, number, used)):
                return False
            else:
                used |= lowest
                need -= 1
                free = slots & ~used
                continue
            assigned[number] |= lowest
            used |= lowest
            need -= 1
    return True


def _augment(demands: Sequence[SlotDemand], assigned: list[int], demand: int, used: int) -> int:
    """Assign one more slot to a demand along an augmenting path; return the newly used slot, or 0 if there is none.

    The path is searched breadth-first among demands, because a demand has many equivalent slots.
    """
    from_: dict[int, tuple[int, int]] = {demand: (-1, 0)}
    queue = [demand]
    for taker in queue:
        for giver, own_slots in enumerate(assigned):
            common = own_slots & demands[taker].slots
            if giver in from_ or not common:
                continue
            from_[giver] = (taker, common & -common)
            spare = demands[giver].slots & ~used
            if spare:
                new = spare & -spare
                assigned[giver] |= new
                while giver != demand:
                    taker_, slot = from_[giver]
                    assigned[giver] ^= slot
                    assigned[taker_] |= slot
                    giver = taker_
                return new
            queue.append(giver)
    return 0


def most_within(amounts: Sequence[tuple[int, int]], slots: int, left: int) -> int:
    """The maximum number of the slots that can consume one counter together: the smallest amounts first.

    ``amounts`` are pairs (amount, slot's bit), ascending.

    >>> most_within([(1, 0b001), (2, 0b010), (4, 0b100)], 0b111, 3)
    2
    """
    count = 0
    for amount, bit in amounts:
        if bit & slots:
            left -= amount
            if left < 0:
                break
            count += 1
    return count
