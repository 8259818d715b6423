"""Counting bounds: exact where documented, and never wrong if they report infeasibility."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from allotment.engine.search.counter_groups import connected
from allotment.engine.search.counting_bounds import SlotDemand, can_match, most_within

SLOTS = 7
demands = st.lists(st.builds(SlotDemand, st.integers(0, 3), st.integers(0, (1 << SLOTS) - 1)), max_size=4)


def by_trying(wanted: list[SlotDemand], free: int = (1 << SLOTS) - 1) -> bool:
    if not wanted:
        return True
    need, slots = wanted[0]
    candidates = [1 << i for i in range(SLOTS) if slots & free & 1 << i]
    return any(by_trying(wanted[1:], free & ~sum(chosen)) for chosen in itertools.combinations(candidates, need))


@given(demands)
def test_matching_is_exact(wanted: list[SlotDemand]) -> None:
    assert can_match(wanted) == by_trying(wanted)


def test_matching_reassigns_slots_along_a_chain() -> None:
    # Each demand takes the lowest slot first, and every one of them has to move up for the last.
    chain = [SlotDemand(1, 0b11 << i) for i in range(5)]
    assert can_match([*chain, SlotDemand(1, 1)])
    assert not can_match([*chain, SlotDemand(1, 1), SlotDemand(1, 1 << 5)])


@given(st.lists(st.integers(1, 6), max_size=6), st.integers(0, 63), st.integers(-3, 15))
def test_most_within_is_exact(amounts: list[int], slots: int, left: int) -> None:
    pairs = sorted((amount, 1 << i) for i, amount in enumerate(amounts))
    inside = [amount for amount, bit in pairs if bit & slots]
    best = max(
        (n for n in range(len(inside) + 1) for c in itertools.combinations(inside, n) if n == 0 or sum(c) <= left),
        default=0,
    )
    assert most_within(pairs, slots, left) == best


@given(st.lists(st.sets(st.integers(0, 5), max_size=3), max_size=8))
def test_connected_sets_are_a_partition_without_crossing_links(links: list[set[int]]) -> None:
    sets = connected([sorted(named) for named in links])
    assert sorted(number for members in sets for number in members) == list(range(len(links)))
    for first, second in itertools.combinations(sets, 2):
        assert not set().union(*(links[i] for i in first)) & set().union(*(links[i] for i in second))
