"""Devices that stand in each other's way: those that draw from common counters (KEP-4815), as one GPU's partitions do.

A group is a connected set of devices and counters. What is chosen in one group changes nothing in another.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from allotment.engine.cluster.layout import Layout


class CounterGroup(NamedTuple):
    """Slots, and the counters that they draw from, in the order in which the slots name them."""

    mask: int
    counters: tuple[int, ...]
    draws: tuple[tuple[tuple[int, int], ...], ...]
    """Per counter: pairs (amount, slot's bit) of the slots that draw from it, ascending by amount."""


def connected(links: Sequence[Sequence[Hashable]]) -> list[list[int]]:
    """Sets of numbers that common links connect: each ascending, and in the order of their first members.

    >>> connected(["ab", "c", "bd", "", "d"])
    [[0, 2, 4], [1], [3]]
    """
    leader = list(range(len(links)))

    def find(number: int) -> int:
        while leader[number] != number:
            leader[number] = number = leader[leader[number]]
        return number

    first_with: dict[Hashable, int] = {}
    for number, named in enumerate(links):
        for link in named:
            leader[find(number)] = find(first_with.setdefault(link, number))
    together: dict[int, list[int]] = {}
    for number in range(len(links)):
        together.setdefault(find(number), []).append(number)
    return list(together.values())


def counter_groups(layout: Layout) -> tuple[CounterGroup, ...]:
    """The layout's groups; a slot that draws from no counter is in none."""
    sets = connected([[counter for counter, _ in uses] for uses in layout.uses])
    return tuple(_group(layout, slots) for slots in sets if layout.uses[slots[0]])


def _group(layout: Layout, slots: list[int]) -> CounterGroup:
    draws: dict[int, list[tuple[int, int]]] = {}
    for slot in slots:
        for counter, amount in layout.uses[slot]:
            draws.setdefault(counter, []).append((amount, 1 << slot))
    return CounterGroup(
        sum(1 << slot for slot in slots), tuple(draws), tuple(tuple(sorted(pairs)) for pairs in draws.values())
    )
