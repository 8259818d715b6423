"""``Pattern``: the slots of a node that match each subrequest, and the constraint values that they share.

Properties that no request reads (names, serial numbers) are omitted, and attribute values that constraints compare are
numbered in order of appearance. Two nodes with the same hardware in the same arrangement therefore have the same
``Pattern``, and the verdict of the search for one of them applies to the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from allotment.engine.claims.constraints import Element, elements, find_attribute
from allotment.engine.claims.eligibility import DeviceMatcher, Profile
from allotment.engine.claims.requests import ClaimShape
from allotment.engine.cluster.devices import MAX_INTERNED
from allotment.engine.cluster.layout import Layout, NodeView
from allotment.model.features import Features


class Pattern:
    """Masks over slots, per subrequest and per constraint; compared by identity."""

    __slots__ = (
        "candidates",
        "eligible",
        "holders",
        "layout",
        "listed",
        "number",
        "failing",
        "present",
        "profiles",
        "relevant",
        "selectable",
        "values",
    )

    def __init__(
        self,
        number: int,
        shape: ClaimShape,
        layout: Layout,
        profiles: tuple[Profile, ...],
        values: tuple[tuple[int | None, ...], ...],
    ) -> None:
        self.number = number
        self.layout = layout
        self.profiles = profiles
        """The profile of each slot."""
        self.values = tuple(tuple(v or 0 for v in row) for row in values)
        """Per constraint and slot: the elements of the value as a bit mask; 0 if the device lacks the attribute, or
        has a value that only a single device may have."""
        self.present = tuple(_mask(v is not None for v in row) for row in values)
        """Per constraint: slots whose device has the attribute."""
        self.holders = tuple(_holders(row) for row in self.values)
        """Per constraint and element: slots whose value contains it."""
        subrequests = range(len(shape.subrequests))
        self.selectable = tuple(_mask(p.selectable >> a & 1 for p in profiles) & layout.reach for a in subrequests)
        self.listed = tuple(_mask(p.listed >> a & 1 for p in profiles) & layout.reach for a in subrequests)
        self.failing = tuple(_mask(p.failing >> a & 1 for p in profiles) for a in subrequests)
        self.eligible = tuple(_mask(p.eligible >> a & 1 for p in profiles) & layout.reach for a in subrequests)
        candidates = []
        for subrequest in shape.subrequests:
            match = self.eligible[subrequest.number]
            for constraint in subrequest.constraints:
                match &= self.present[constraint]
            candidates.append(match)
        self.candidates = tuple(candidates)
        """Per subrequest: eligible slots that have the attributes of its constraints."""
        self.relevant = 0
        """Slots whose usage can affect the result."""
        for masks in (self.selectable, self.failing):
            for mask in masks:
                self.relevant |= mask


def _mask(bits: Iterable[object]) -> int:
    mask = 0
    for slot, bit in enumerate(bits):
        if bit:
            mask |= 1 << slot
    return mask


def _holders(row: tuple[int, ...]) -> tuple[int, ...]:
    holders = [0] * max((v.bit_length() for v in row), default=0)
    for slot, value in enumerate(row):
        while value:
            lowest = value & -value
            holders[lowest.bit_length() - 1] |= 1 << slot
            value ^= lowest
    return tuple(holders)


class PatternTable:
    """Interns the patterns of one shape: equivalent nodes get the same object."""

    def __init__(self, shape: ClaimShape, features: Features) -> None:
        self._shape = shape
        self.matcher = DeviceMatcher(shape, features)
        self._lists = features.enabled("DRAListTypeAttributes")
        self._known: dict[object, Pattern] = {}
        self._numbers = itertools.count()

    def of(self, view: NodeView) -> Pattern:
        """The node's pattern."""
        profile = self.matcher.profile
        profiles = tuple([profile(record) for record in view.records])
        values = tuple(self._values(view, constraint.attribute) for constraint in self._shape.constraints)
        key = (view.layout.number, tuple([p.number for p in profiles]), values)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MAX_INTERNED:
                self._known.clear()
            found = self._known[key] = Pattern(next(self._numbers), self._shape, view.layout, profiles, values)
        return found

    def _values(self, view: NodeView, attribute: str) -> tuple[int | None, ...]:
        bits: dict[Element, int] = {}
        row: list[int | None] = []
        for record in view.records:
            found = elements(find_attribute(record.device, record.id.driver, attribute), self._lists)
            if found is None:
                row.append(None)
                continue
            mask = 0
            for element in found:
                mask |= bits.setdefault(element, 1 << len(bits))
            row.append(mask)
        return tuple(row)
