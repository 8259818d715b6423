"""``Pattern``: the slots of a node that match each subrequest, and the constraint values that they share.

Properties that no request reads (names, serial numbers) are omitted, and attribute values that constraints compare are
numbered in order of appearance. Two nodes with the same hardware in the same arrangement therefore have the same
``Pattern``, and the verdict of the search for one of them applies to the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Final

from allotment.engine.claims.constraints import Element, ValueSource, elements, find_attribute
from allotment.engine.claims.derived_values import DerivedFailure
from allotment.engine.claims.eligibility import DeviceMatcher, Profile
from allotment.engine.claims.requests import ClaimShape
from allotment.engine.cluster.devices import MAX_INTERNED
from allotment.engine.cluster.layout import Layout, NodeView
from allotment.model.features import Features
from allotment.model.resource import DeviceAttribute

#: The value of a derived attribute whose expression fails.
ERROR: Final = -1


class Pattern:
    """Masks over slots, per subrequest and per source of a constraint's values; compared by identity."""

    __slots__ = (
        "candidates",
        "eligible",
        "elements",
        "erring",
        "hazards",
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
        self.values = tuple(tuple(max(v or 0, 0) for v in row) for row in values)
        """Per source of a constraint's values and slot: the elements of the value as a bit mask; 0 if the device lacks
        the attribute, or has a value that only a single device may have. Sources of one constraint share the bits."""
        self.present = tuple(_mask(v is not None and v != ERROR for v in row) for row in values)
        """Per source: slots whose device has the attribute."""
        self.erring = tuple(_mask(v == ERROR for v in row) for row in values)
        """Per source: slots on which the expression of the derived attribute fails."""
        self.holders = tuple(_holders(row) for row in self.values)
        """Per source and element: slots whose value contains it."""
        self.elements = [0] * len(shape.constraints)
        """Per constraint: the number of elements that its values have."""
        for source, holders in zip(shape.sources, self.holders, strict=True):
            self.elements[source.constraint] = max(self.elements[source.constraint], len(holders))
        subrequests = range(len(shape.subrequests))
        self.selectable = tuple(_mask(p.selectable >> a & 1 for p in profiles) & layout.reach for a in subrequests)
        self.listed = tuple(_mask(p.listed >> a & 1 for p in profiles) & layout.reach for a in subrequests)
        self.failing = tuple(
            _mask(p.failing >> a & 1 for p in profiles)
            | _mask(p.unmeasurable >> a & 1 for p in profiles) & layout.reach
            for a in subrequests
        )
        """Per subrequest: slots on which a selector or the capacity fails with an error."""
        usable = layout.reach & layout.supported
        self.eligible = tuple(_mask(p.eligible >> a & 1 for p in profiles) & usable for a in subrequests)
        candidates = []
        hazards = []
        for subrequest in shape.subrequests:
            match = self.eligible[subrequest.number]
            hazard = 0
            # The first constraint that fails decides: one that is not met, or one whose attribute cannot be evaluated.
            for number in subrequest.sources:
                hazard |= match & self.erring[number]
                match &= self.present[number]
            candidates.append(match | hazard)
            hazards.append(hazard)
        self.candidates = tuple(candidates)
        """Per subrequest: eligible slots that have the attributes of its constraints, and its hazards."""
        self.hazards = tuple(hazards)
        """Per subrequest: eligible slots on which a derived attribute may be evaluated with an error."""
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
        bits: list[dict[Element, int]] = [{} for _ in self._shape.constraints]
        values = tuple(self._values(view, source, bits[source.constraint]) for source in self._shape.sources)
        key = (view.layout.number, tuple([p.number for p in profiles]), values)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MAX_INTERNED:
                self._known.clear()
            found = self._known[key] = Pattern(next(self._numbers), self._shape, view.layout, profiles, values)
        return found

    def _values(self, view: NodeView, source: ValueSource, bits: dict[Element, int]) -> tuple[int | None, ...]:
        """The values of one source by slot; ``bits`` numbers the elements of the constraint in order of appearance."""
        row: list[int | None] = []
        for record in view.records:
            attribute: DeviceAttribute | DerivedFailure | None
            if source.derived is None:
                attribute = find_attribute(record.device, record.id.driver, source.attribute)
            else:
                attribute = self.matcher.derived.of(source.derived, record)
                if isinstance(attribute, DerivedFailure):
                    row.append(ERROR)
                    continue
            found = elements(attribute, self._lists)
            if found is None:
                row.append(None)
                continue
            mask = 0
            for element in found:
                mask |= bits.setdefault(element, 1 << len(bits))
            row.append(mask)
        return tuple(row)
