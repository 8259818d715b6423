"""Symmetry breaking for the search: interchangeable devices, and states that failed before.

If no solution starts with one device, none starts with an interchangeable one: exchanging the two would give a solution
that had been found earlier. Likewise, a state that failed fails again in every equivalent form. The key of a state is
*how many* devices of a kind are left, not which ones, and how many clusters of devices (the partitions of a GPU, the
GPUs under a PCIe root) are in which state. The number of steps of an infeasible search is therefore polynomial in the
number of devices of a kind.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple

from allotment.engine.claims.requests import Subrequest
from allotment.engine.search.attempt import SearchAttempt
from allotment.engine.search.counter_groups import connected

#: Kinds of links between slots; links by constraint values have the number of the constraint instead.
_COUNTER: Final = -1
_GROUP_SET: Final = -2


def _kinds(attempt: SearchAttempt) -> list[Hashable]:
    """Per slot, everything that the search reads, except counters and constraint values."""
    pattern, layout = attempt.pattern, attempt.layout
    columns = [
        *attempt.candidates,
        *pattern.failing,
        *pattern.eligible,
        *pattern.present,
        *pattern.erring,
        attempt.in_use,
        attempt.blocked,
    ]
    kinds: list[Hashable] = []
    for slot in range(layout.size):
        member = 0
        for column in columns:
            member = member << 1 | column >> slot & 1
        shared = None
        if layout.shareable >> slot & 1:
            shared = (pattern.profiles[slot].amounts, tuple(attempt.room[slot]), attempt.shared_before >> slot & 1)
        kinds.append((member, shared))
    return kinds


class InterchangeableSlots:
    """Sets of interchangeable slots."""

    def __init__(self, attempt: SearchAttempt) -> None:
        together: dict[Hashable, int] = {}
        values = zip(*attempt.pattern.values, strict=True) if attempt.pattern.values else [()] * attempt.layout.size
        keys = list(zip(_kinds(attempt), attempt.layout.uses, attempt.layout.groups, values, strict=True))
        for slot, key in enumerate(keys):
            together[key] = together.get(key, 0) | 1 << slot
        self._of = [together[key] for key in keys]

    def of(self, slot: int, touched: int) -> int:
        """Slots that need not be tried after ``slot`` failed; ``touched`` are the slots that are already chosen."""
        return 0 if touched >> slot & 1 else self._of[slot] & ~touched


class _Cluster(NamedTuple):
    """Slots that counters, compatibility groups or constraint values connect: their state is compared as a whole."""

    cluster_type: int
    """Clusters of the same type are interchangeable if they are in the same state."""
    kinds: tuple[int, ...]
    """Masks of the slots of each kind."""
    counters: tuple[int, ...]
    group_sets: tuple[int, ...]
    elements: tuple[tuple[int, int], ...]
    """Constraint and element number of its values, in order of first use."""
    shared: tuple[int, ...]
    """The shareable slots."""


class FailedStates:
    """Keys of the states in which the search failed."""

    def __init__(self, attempt: SearchAttempt) -> None:
        self.known: set[Hashable] = set()
        self._attempt = attempt
        self._admin = any(subrequest.admin for subrequest in attempt.shape.subrequests)
        # An element that only one device has connects nothing and is irrelevant once the device is taken.
        shareable = attempt.layout.shareable
        holders = [[0] * count for count in attempt.pattern.elements]
        for source, row in zip(attempt.shape.sources, attempt.pattern.holders, strict=True):
            for i, slots in enumerate(row):
                holders[source.constraint][i] |= slots
        self._common = [
            sum(1 << i for i, slots in enumerate(row) if slots.bit_count() > 1 or slots & shareable) for row in holders
        ]
        kinds = _kinds(attempt)
        loose: dict[Hashable, int] = {}
        cluster_types: dict[Hashable, int] = {}
        self._constraints = [
            tuple(
                sorted(
                    {
                        c
                        for request in claim.requests
                        for subrequest in request.subrequests
                        for c in subrequest.constraints
                    }
                )
            )
            for claim in attempt.shape.claims
        ]
        self._clusters: list[_Cluster] = []
        for members in connected([list(self._links(slot)) for slot in range(attempt.layout.size)]):
            first = members[0]
            if len(members) == 1 and not attempt.layout.uses[first] and not attempt.layout.shareable >> first & 1:
                key = (kinds[first], tuple([not row[first] for row in attempt.pattern.values]))
                loose[key] = loose.get(key, 0) | 1 << first
            else:
                self._clusters.append(self._cluster(members, kinds, cluster_types))
        self._loose = tuple(loose.values())

    def _links(self, slot: int) -> Iterable[tuple[int, int]]:
        """The links of a slot to others: counters, group sets, and elements of constraint values."""
        layout = self._attempt.layout
        for counter, _ in layout.uses[slot]:
            yield _COUNTER, counter
        for group_set, _ in layout.groups[slot]:
            yield _GROUP_SET, group_set
        for source, row in zip(self._attempt.shape.sources, self._attempt.pattern.values, strict=True):
            value = row[slot] & self._common[source.constraint]
            while value:
                lowest = value & -value
                yield source.constraint, lowest.bit_length() - 1
                value ^= lowest

    def _cluster(self, slots: list[int], kinds: list[Hashable], cluster_types: dict[Hashable, int]) -> _Cluster:
        layout, values = self._attempt.layout, self._attempt.pattern.values
        local: dict[tuple[int, int], int] = {}
        keys: list[Hashable] = []
        for slot in slots:
            links = tuple([local.setdefault(link, len(local)) for link in self._links(slot)])
            amounts = tuple([amount for _, amount in layout.uses[slot]])
            groups = tuple([mask for _, mask in layout.groups[slot]])
            # The number of common elements per source separates the links of one source from those of the next.
            of_sources = tuple(
                [
                    (bool(row[slot]), (row[slot] & self._common[source.constraint]).bit_count())
                    for source, row in zip(self._attempt.shape.sources, values, strict=True)
                ]
            )
            keys.append((kinds[slot], links, amounts, groups, of_sources))
        masks: dict[Hashable, int] = {}
        for slot, key in zip(slots, keys, strict=True):
            masks[key] = masks.get(key, 0) | 1 << slot
        # The constraint of a link is part of the type, its counter or element is not.
        cluster_type = cluster_types.setdefault(
            (tuple(keys), tuple([constraint for constraint, _ in local])), len(cluster_types)
        )
        return _Cluster(
            cluster_type,
            tuple(masks.values()),
            tuple(number for kind, number in local if kind == _COUNTER),
            tuple(number for kind, number in local if kind == _GROUP_SET),
            tuple(link for link in local if link[0] >= 0),
            tuple(slot for slot in slots if layout.shareable >> slot & 1),
        )

    def exact_key(self, subrequest: Subrequest, position: int, start: int) -> Hashable:
        """A key of the state that distinguishes all devices; the chosen ones determine the common groups."""
        attempt = self._attempt
        return (
            subrequest.number,
            position,
            start,
            len(attempt.results[subrequest.claim]),
            attempt.taken,
            attempt.taken_by_claim[subrequest.claim],
            attempt.touched,
            tuple(attempt.bound),
            tuple(attempt.left),
            tuple(map(tuple, attempt.room.values())),
        )

    def key(self, subrequest: Subrequest, position: int, start: int) -> Hashable:
        """A key of the state, equal for equivalent states, before a device in slot ``start`` or later is chosen."""
        attempt = self._attempt
        free = ~attempt.taken
        ahead = -1 << start
        own_taken = attempt.taken_by_claim[subrequest.claim]
        constraints = self._constraints[subrequest.claim]
        bound = attempt.bound

        def count(mask: int) -> tuple[int, ...]:
            left = mask & free
            if not self._admin:
                return left.bit_count(), (left & ahead).bit_count()
            own = mask & own_taken
            return (
                left.bit_count(),
                (left & ahead).bit_count(),
                own.bit_count(),
                (own & ahead).bit_count(),
                (mask & ahead).bit_count(),
            )

        clusters = []
        for cluster_type, kinds, counters, group_sets, elements, shared in self._clusters:
            state: tuple[Hashable, ...] = (
                cluster_type,
                *[count(mask) for mask in kinds],
                *[attempt.left[c] for c in counters],
                *[attempt.groups[g] for g in group_sets],
            )
            if elements:
                state += (tuple([bound[c] >> e & 1 if c in constraints else 0 for c, e in elements]),)
            if shared:
                touched = attempt.touched
                state += tuple([(tuple(attempt.room[s]), s >= start, touched >> s & 1) for s in shared])
            clusters.append(state)
        clusters.sort()  # tuples of one type have the same structure
        return (
            subrequest.number,
            position,
            len(attempt.results[subrequest.claim]),
            # In addition to the elements in clusters: whether a constraint has values, and whether any is left.
            tuple([(bound[c] > 0) - (bound[c] < 0) for c in constraints]),
            tuple([count(mask) for mask in self._loose]),
            tuple(clusters),
        )
