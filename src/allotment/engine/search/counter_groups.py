"""Groups of devices that consume common counters (KEP-4815), such as the partitions of one GPU.

A group is a connected component of devices and counters: choices in one group do not affect another group.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from allotment.engine.cluster.layout import Layout


class CounterGroup(NamedTuple):
    """The slots of a group and the counters that they consume, in order of first use."""

    mask: int
    counters: tuple[int, ...]
    draws: tuple[tuple[tuple[int, int], ...], ...]
    """Per counter: pairs (amount, slot's bit) of the slots that consume it, ascending by amount."""
    compatible: tuple[tuple[int, tuple[int, ...]], ...]
    """Per group set: its number, and per compatibility group the slots that have it (see ``Layout.groups``)."""


def connected(links: Sequence[Sequence[Hashable]]) -> list[list[int]]:
    """Connected components: sets of indexes that share links, each ascending, in the order of their first members.

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
    """The counter groups of a layout; a slot without counters is in none."""
    sets = connected([[counter for counter, _ in uses] for uses in layout.uses])
    return tuple(_group(layout, slots) for slots in sets if layout.uses[slots[0]])


def _group(layout: Layout, slots: list[int]) -> CounterGroup:
    draws: dict[int, list[tuple[int, int]]] = {}
    for slot in slots:
        for counter, amount in layout.uses[slot]:
            draws.setdefault(counter, []).append((amount, 1 << slot))
    compatible: dict[int, list[int]] = {}
    for slot in slots:
        for number, mask in layout.groups[slot]:
            members = compatible.setdefault(number, [])
            members.extend([0] * (mask.bit_length() - len(members)))
            for group in range(mask.bit_length()):
                members[group] |= (mask >> group & 1) << slot
    return CounterGroup(
        sum(1 << slot for slot in slots),
        tuple(draws),
        tuple(tuple(sorted(pairs)) for pairs in draws.values()),
        tuple((number, tuple(members)) for number, members in compatible.items()),
    )
