"""Devices that stand in each other's way: those that draw from common counters (KEP-4815), as one GPU's partitions do.

A group is a connected set of devices and counters. What is chosen in one group changes nothing in another, and groups
of the same make are interchangeable as wholes.
"""

from __future__ import annotations

from typing import NamedTuple

from allotment.engine.layout import Layout


class Group(NamedTuple):
    """Slots, and the counters that they draw from, in the order in which the slots name them."""

    slots: tuple[int, ...]
    mask: int
    counters: tuple[int, ...]
    draws: tuple[tuple[tuple[int, int], ...], ...]
    """Per counter: pairs (amount, slot's bit) of the slots that draw from it, ascending by amount."""


def groups(layout: Layout) -> tuple[Group, ...]:
    """The layout's groups; a slot that draws from no counter is in none."""
    leader: dict[int, int] = {}

    def find(counter: int) -> int:
        while (above := leader.setdefault(counter, counter)) != counter:
            leader[counter] = counter = leader[above]
        return counter

    for uses in layout.uses:
        for counter, _ in uses[1:]:
            leader[find(counter)] = find(uses[0][0])
    members: dict[int, list[int]] = {}
    for slot, uses in enumerate(layout.uses):
        if uses:
            members.setdefault(find(uses[0][0]), []).append(slot)
    return tuple(_group(layout, tuple(slots)) for slots in members.values())


def _group(layout: Layout, slots: tuple[int, ...]) -> Group:
    draws: dict[int, list[tuple[int, int]]] = {}
    for slot in slots:
        for counter, amount in layout.uses[slot]:
            draws.setdefault(counter, []).append((amount, 1 << slot))
    return Group(
        slots, sum(1 << slot for slot in slots), tuple(draws), tuple(tuple(sorted(pairs)) for pairs in draws.values())
    )
