"""What is alike for the search: devices that can stand in for each other, and states that were refused before.

If no solution begins with one device, none begins with another that is like it in every respect that matters: exchange
the two, and the one solution becomes the other, found earlier. Likewise, a state in which the search has failed fails
again wherever it comes up in another guise. Since such states are told by *how many* devices of a kind are left, not
by which, a hopeless search takes a number of steps that is polynomial in the numbers of devices.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple

from allotment.engine.groups import Group, groups
from allotment.engine.requests import Ask

if TYPE_CHECKING:
    from allotment.engine.search import Search


def _kinds(search: Search) -> list[Hashable]:
    """Per slot, everything that the search looks at but the counters it draws from."""
    pattern, layout = search.pattern, search.layout
    columns = [*search.candidates, *pattern.poison, *pattern.eligible, search.in_use, search.blocked]
    kinds: list[Hashable] = []
    for slot in range(layout.size):
        member = 0
        for column in columns:
            member = member << 1 | column >> slot & 1
        values = tuple([row[slot] for row in pattern.values])
        shared = None
        if layout.shareable >> slot & 1:
            shared = (pattern.profiles[slot].amounts, tuple(search.room[slot]), search.shared_before >> slot & 1)
        kinds.append((member, values, shared))
    return kinds


class Twins:
    """Interchangeable slots."""

    def __init__(self, search: Search) -> None:
        together: dict[Hashable, int] = {}
        keys = list(zip(_kinds(search), search.layout.uses, strict=True))
        for slot, key in enumerate(keys):
            together[key] = together.get(key, 0) | 1 << slot
        self._of = [together[key] for key in keys]

    def of(self, slot: int, touched: int) -> int:
        """Slots that need not be tried after ``slot`` failed; ``touched`` are the slots chosen already."""
        return 0 if touched >> slot & 1 else self._of[slot] & ~touched


class _Cluster(NamedTuple):
    """Slots whose state must be told together: a group's, or a single shareable one."""

    make: int
    """Clusters of the same make are interchangeable if they are in the same state."""
    kinds: tuple[int, ...]
    """Masks of the slots of one kind."""
    counters: tuple[int, ...]
    shared: tuple[int, ...]


class Refused:
    """States in which the search has failed, by what matters of them."""

    def __init__(self, search: Search) -> None:
        self.known: set[Hashable] = set()
        self._search = search
        self._admin = any(ask.admin for ask in search.shape.asks)
        layout = search.layout
        kinds = _kinds(search)
        loose: dict[Hashable, int] = {}
        makes: dict[Hashable, int] = {}
        self._clusters = [self._cluster(group, kinds, makes) for group in groups(layout)]
        for slot, kind in enumerate(kinds):
            if layout.uses[slot]:
                continue
            if layout.shareable >> slot & 1:
                make = makes.setdefault(kind, len(makes))
                self._clusters.append(_Cluster(make, (1 << slot,), (), (slot,)))
            else:
                loose[kind] = loose.get(kind, 0) | 1 << slot
        self._loose = tuple(loose.values())
        #: An element that only one device has need not be remembered as used up.
        self._common = [
            sum(1 << i for i, holders in enumerate(row) if holders.bit_count() > 1) for row in search.pattern.holders
        ]

    def _cluster(self, group: Group, kinds: list[Hashable], makes: dict[Hashable, int]) -> _Cluster:
        layout = self._search.layout
        local = {counter: i for i, counter in enumerate(group.counters)}
        keys = [(kinds[s], tuple((local[c], amount) for c, amount in layout.uses[s])) for s in group.slots]
        masks: dict[Hashable, int] = {}
        for slot, key in zip(group.slots, keys, strict=True):
            masks[key] = masks.get(key, 0) | 1 << slot
        shared = tuple(slot for slot in group.slots if layout.shareable >> slot & 1)
        make = makes.setdefault(tuple(keys), len(makes))
        return _Cluster(make, tuple(masks.values()), group.counters, shared)

    def key(self, claim: int, ask: Ask, position: int, start: int) -> Hashable:
        """What matters of the search's state before it chooses a device for the ask in slot ``start`` or later."""
        search = self._search
        free = ~search.taken
        ahead = -1 << start
        mine = search.mine[claim] if self._admin else 0

        def count(mask: int) -> tuple[int, ...]:
            left = mask & free
            if not self._admin:
                return left.bit_count(), (left & ahead).bit_count()
            own = mask & mine
            return (
                left.bit_count(),
                (left & ahead).bit_count(),
                own.bit_count(),
                (own & ahead).bit_count(),
                (mask & ahead).bit_count(),
            )

        clusters = []
        for make, kinds, counters, shared in self._clusters:
            state: tuple[Hashable, ...] = (make, *[count(mask) for mask in kinds], *[search.left[c] for c in counters])
            if shared:
                touched = search.touched
                state += tuple([(tuple(search.room[s]), s >= start, touched >> s & 1) for s in shared])
            clusters.append(state)
        clusters.sort()  # type: ignore[arg-type]  # of one make, tuples have the same build
        bound = [
            value & self._common[i] if value >= 0 and search.shape.constraints[i].distinct else value
            for i, value in enumerate(search.bound)
        ]
        return (
            ask.number,
            position,
            len(search.results[claim]),
            tuple(bound[i] for i in search.constraints_of[claim]),
            tuple([count(mask) for mask in self._loose]),
            tuple(clusters),
        )
