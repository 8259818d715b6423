"""Can this many devices be had at all? Bounds that refuse without searching.

Everything here answers "no" only if no choice of devices could satisfy the demands; a "yes" promises nothing. Without
counters, shared capacity and mixed constraints the answer is exact, so that the search never turns back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class SlotDemand(NamedTuple):
    """So many devices out of these slots (a bit mask)."""

    need: int
    slots: int


def can_match(demands: Sequence[SlotDemand]) -> bool:
    """Whether every demand can be met with slots of its own, no slot used twice (bipartite matching).

    >>> can_match([Demand(2, 0b0111), Demand(2, 0b0111)])
    False
    >>> can_match([Demand(2, 0b0111), Demand(1, 0b0011), Demand(1, 0b1100)])
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
    given = [0] * len(demands)
    used = 0
    for number, (need, slots) in enumerate(demands):
        free = slots & ~used
        while need:
            if free:
                lowest = free & -free
                free ^= lowest
            elif not (lowest := _augment(demands, given, number, used)):
                return False
            else:
                used |= lowest
                need -= 1
                free = slots & ~used
                continue
            given[number] |= lowest
            used |= lowest
            need -= 1
    return True


def _augment(demands: Sequence[SlotDemand], given: list[int], hungry: int, used: int) -> int:
    """Give ``hungry`` one more slot along an augmenting path; returns the slot that came into use, 0 if there is none.

    Demands stand for all their slots at once, so the path is looked for among demands, breadth first.
    """
    from_: dict[int, tuple[int, int]] = {hungry: (-1, 0)}
    queue = [hungry]
    for taker in queue:
        for giver, theirs in enumerate(given):
            common = theirs & demands[taker].slots
            if giver in from_ or not common:
                continue
            from_[giver] = (taker, common & -common)
            spare = demands[giver].slots & ~used
            if spare:
                new = spare & -spare
                given[giver] |= new
                while giver != hungry:
                    taker_, slot = from_[giver]
                    given[giver] ^= slot
                    given[taker_] |= slot
                    giver = taker_
                return new
            queue.append(giver)
    return 0


def most_within(amounts: Sequence[tuple[int, int]], slots: int, left: int) -> int:
    """How many of the slots can draw from one counter together: the smallest draw first.

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
