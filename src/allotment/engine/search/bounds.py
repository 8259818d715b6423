"""Feasibility bounds: whether the remaining devices may be sufficient for the remaining requests.

They are computed at the root of a search and after its first dead end. "Infeasible" is certain. Each value of a
constraint that is not fixed yet is tried (all combinations, up to a limit); for each one, `counting_bounds` checks
devices, distinct values, counters and shared capacity.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from allotment.engine.claims.requests import Subrequest
from allotment.engine.search.attempt import SearchAttempt
from allotment.engine.search.counter_groups import counter_groups
from allotment.engine.search.counting_bounds import SlotDemand, can_match, most_within

#: Maximum number of combinations: of alternatives, which otherwise are combined into one weak demand; and of constraint
#: values, which otherwise are examined one constraint at a time.
COMBINATIONS: Final = 64
_ANY_NUMBER: Final = 1 << 30


class _Option(NamedTuple):
    """A subrequest, the number of devices that it still needs, and the candidate slots."""

    subrequest: Subrequest
    need: int
    slots: int


class _Bound(NamedTuple):
    """The minimum need of a request over all its options."""

    demand: SlotDemand
    options: tuple[_Option, ...]
    admin: bool


_Options = list[tuple[_Option, ...]]


class SearchBounds:
    """Bounds of one search attempt in its current state."""

    def __init__(self, attempt: SearchAttempt) -> None:
        self._attempt = attempt
        self._groups = counter_groups(attempt.layout) if attempt.left else ()
        self._serves = {slot: self._least_room(slot) for slot in attempt.room if attempt.layout.shareable >> slot & 1}
        self._shared = 0
        self._source = [dict(zip(s.constraints, s.sources, strict=True)) for s in attempt.shape.subrequests]
        """Per subrequest: the source of the values that each of its constraints compares."""
        self._sources: dict[int, set[int]] = {}
        for of_subrequest in self._source:
            for constraint, source in of_subrequest.items():
                self._sources.setdefault(constraint, set()).add(source)
        self._least_draw = [self._least(subrequest) for subrequest in attempt.shape.subrequests] if attempt.left else []

    def _least(self, subrequest: Subrequest) -> dict[str, int]:
        """Per counter name, the minimum that any candidate consumes of a counter with that name."""
        attempt = self._attempt
        least: dict[str, int] | None = None
        mask = attempt.candidates[subrequest.number]
        seen: set[object] = set()
        while mask:
            lowest = mask & -mask
            mask ^= lowest
            uses = attempt.layout.uses[lowest.bit_length() - 1]
            if attempt.layout.shareable & lowest:
                return {}
            if uses in seen:
                continue
            seen.add(uses)
            draws: dict[str, int] = {}
            for counter, amount in uses:
                name = attempt.layout.counters[counter].counter
                draws[name] = draws.get(name, 0) + amount
            if least is None:
                least = draws
            else:
                least = {name: min(amount, draws[name]) for name, amount in least.items() if name in draws}
        return least or {}

    def _least_room(self, slot: int) -> tuple[int, ...]:
        """Per capacity, the minimum that any subrequest would consume of a shareable device."""
        attempt = self._attempt
        amounts = [
            attempt.pattern.profiles[slot].amounts[subrequest.number]
            for subrequest in attempt.shape.subrequests
            if attempt.candidates[subrequest.number] >> slot & 1
        ]
        return tuple(map(min, zip(*amounts, strict=True)))

    def _serving(self, slot: int) -> int:
        """The maximum number of further subrequests that a shareable device can serve; unlimited without capacity."""
        left = zip(self._attempt.room[slot], self._serves[slot], strict=False)
        return min((room // least for room, least in left if least > 0), default=_ANY_NUMBER)

    def may_fit(self, claim: int, request: int, current: tuple[Subrequest, int, int] | None = None) -> bool:
        """Whether the requests starting with ``request`` of ``claim`` may fit.

        ``current`` is the unfinished subrequest, if any (its request precedes ``request``): the subrequest, the number
        of devices that it still needs, and its candidate slots.
        """
        self._shared = sum(1 << slot for slot in self._serves if self._serving(slot) > 1)
        wanted: _Options = [(_Option(*current),)] if current is not None else []
        claims = self._attempt.shape.claims
        for number in range(claim, len(claims)):
            for later in claims[number].requests[request if number == claim else 0 :]:
                options = tuple(self._options(number, later.subrequests))
                if not options:
                    return False
                wanted.append(options)
        wanted = [options for options in wanted if options[0].need or len(options) > 1]
        ways = math.prod(len(options) for options in wanted)
        if 1 < ways <= COMBINATIONS // 4:
            return any(self._may_fit([(option,) for option in way]) for way in itertools.product(*wanted))
        return self._may_fit(wanted)

    def _may_fit(self, wanted: _Options) -> bool:
        open_ = self._open_constraints(wanted)
        if not open_:
            return self._enough(wanted)
        if not self._enough_equal_values(wanted, open_):
            return False
        if math.prod(self._attempt.pattern.elements[c] + 1 for c in open_) <= COMBINATIONS:
            return self._any_value(wanted, open_)
        return all(self._any_value(wanted, [constraint]) for constraint in open_)

    def _options(self, claim: int, subrequests: tuple[Subrequest, ...]) -> Iterator[_Option]:
        attempt = self._attempt
        incompatible = attempt.incompatible()
        for subrequest in subrequests:
            need = attempt.need[subrequest.number]
            if subrequest.all and not need:
                continue
            slots = (
                attempt.candidates[subrequest.number] & attempt.pattern.eligible[subrequest.number] & ~attempt.blocked
            )
            slots &= ~attempt.taken_by_claim[claim] if subrequest.admin else ~(attempt.in_use | attempt.taken)
            slots &= ~incompatible
            for slot in self._serves if attempt.touched & attempt.layout.shareable & slots else ():
                if slots >> slot & 1 and not attempt.has_room(slot, subrequest.number):
                    slots &= ~(1 << slot)
            for constraint, source in self._source[subrequest.number].items():
                slots &= self._admitted(constraint, source)
            if slots.bit_count() >= need:
                yield _Option(subrequest, need, slots)

    def _admitted(self, constraint: int, source: int) -> int:
        """Slots that a constraint admits after the devices taken so far, if their values come from this source."""
        attempt = self._attempt
        bound = attempt.bound[constraint]
        holders = attempt.pattern.holders[source]
        if bound < 0:
            return attempt.pattern.present[source]
        if attempt.shape.constraints[constraint].distinct:
            return _union(holders, ~bound) & ~_union(holders, bound)
        return _union(holders, bound)

    def _open_constraints(self, wanted: _Options) -> list[int]:
        """Match constraints that no device has fixed yet."""
        attempt = self._attempt
        return [
            number
            for number in sorted({c for options in wanted for option in options for c in option.subrequest.constraints})
            if attempt.bound[number] < 0 and not attempt.shape.constraints[number].distinct
        ]

    def _enough_equal_values(self, wanted: _Options, open_: list[int]) -> bool:
        """Whether claims that each need devices with one common value of the same attribute can all be satisfied.

        With a value that g devices have, at most g // n claims that need n or more devices can be satisfied.
        """
        attempt = self._attempt
        by_attribute: dict[tuple[int, ...], dict[int, tuple[int, int]]] = {}
        for constraint in open_:
            sources = self._sources[constraint]
            if len(sources) > 1:
                continue
            claim = need = slots = 0
            for options in wanted:
                if all(
                    constraint in option.subrequest.constraints and not option.subrequest.admin for option in options
                ):
                    claim = options[0].subrequest.claim
                    need += min(option.need for option in options)
                    slots |= _union_of(options)
            if need and not slots & self._shared:
                # Constraints of one claim may apply to the same devices: only the largest counts.
                of_claims = by_attribute.setdefault(attempt.pattern.holders[min(sources)], {})
                of_claims[claim] = max(of_claims.get(claim, (0, 0)), (need, slots))
        for holders, of_claims in by_attribute.items():
            if len(of_claims) < 2:
                continue
            for least in {need for need, _ in of_claims.values() if need > 1}:
                large = [slots for need, slots in of_claims.values() if need >= least]
                union = 0
                for slots in large:
                    union |= slots
                if len(large) > sum((mask & union).bit_count() // least for mask in holders):
                    return False
        return True

    def _any_value(self, wanted: _Options, open_: list[int]) -> bool:
        """Whether any choice of values for the open constraints may be feasible."""
        if not open_:
            return self._enough(wanted)
        constraint, rest = open_[0], open_[1:]
        pattern = self._attempt.pattern
        values: list[dict[int, int]] = [
            {
                source: pattern.holders[source][element] if element < len(pattern.holders[source]) else 0
                for source in self._sources[constraint]
            }
            for element in range(pattern.elements[constraint])
        ]
        alone = {source: self._alone(source) for source in self._sources[constraint]}
        if any(alone.values()):
            values.append(alone)
        for holders in values:
            restricted = self._restricted(wanted, constraint, holders)
            if restricted is not None and self._any_value(restricted, rest):
                return True
        return False

    def _restricted(self, wanted: _Options, constraint: int, holders: Mapping[int, int]) -> _Options | None:
        """The options restricted to the holders of one value, by source; ``None`` if a request has no option left."""
        result: _Options = []
        for options in wanted:
            left = []
            for option in options:
                source = self._source[option.subrequest.number].get(constraint)
                if source is not None:
                    option = option._replace(slots=option.slots & holders[source])
                if option.slots.bit_count() >= option.need:
                    left.append(option)
            if not left:
                return None
            result.append(tuple(left))
        return result

    # --- with all constraint values fixed --------------------------------------------------------------------------

    def _enough(self, wanted: _Options) -> bool:
        bounds = [
            _Bound(
                SlotDemand(min(o.need for o in options), _union_of(options)),
                options,
                any(o.subrequest.admin for o in options),
            )
            for options in wanted
        ]
        return (
            self._enough_devices(bounds)
            and self._enough_values(bounds)
            and (not self._attempt.left or self._enough_counters(bounds))
            and (not self._attempt.layout.shareable or self._enough_room(bounds))
        )

    def _exclusive(self, bounds: list[_Bound]) -> list[SlotDemand]:
        """The demands for exclusive devices: a shared device can serve each request once."""
        shared = self._shared
        demands = []
        for (need, slots), _, admin in bounds:
            need -= (slots & shared).bit_count()
            if need > 0 and not admin:
                demands.append(SlotDemand(need, slots & ~shared))
        return demands

    def _enough_devices(self, bounds: list[_Bound]) -> bool:
        if any(need > slots.bit_count() for (need, slots), _, _ in bounds):
            return False
        return can_match(self._exclusive(bounds))

    def _enough_values(self, bounds: list[_Bound]) -> bool:
        """Whether enough values are left for every ``distinctAttribute`` constraint."""
        attempt = self._attempt
        for number, constraint in enumerate(attempt.shape.constraints):
            if not constraint.distinct:
                continue
            used = max(attempt.bound[number], 0)
            demands = [
                SlotDemand(need, self._elements_of(number, options) & ~used)
                for (need, _), options, _ in bounds
                if all(number in option.subrequest.constraints for option in options)
            ]
            if sum(need for need, _ in demands) > 1 and not can_match(demands):
                return False
        return True

    def _elements_of(self, constraint: int, options: tuple[_Option, ...]) -> int:
        """The elements of a constraint's values that any of the options' slots has.

        The first device may instead have a value that only a single device may have, which counts as one more element.
        """
        attempt = self._attempt
        elements = 0
        for option in options:
            source = self._source[option.subrequest.number][constraint]
            holders = attempt.pattern.holders[source]
            elements |= sum(1 << i for i, mask in enumerate(holders) if mask & option.slots)
            if attempt.bound[constraint] < 0 and self._alone(source) & option.slots:
                elements |= 1 << attempt.pattern.elements[constraint]
        return elements

    def _alone(self, source: int) -> int:
        """Slots with a value that only a single device may have."""
        pattern = self._attempt.pattern
        return pattern.present[source] & ~_union(pattern.holders[source], -1)

    def _enough_counters(self, bounds: list[_Bound]) -> bool:
        attempt = self._attempt
        demands = self._exclusive(bounds)
        union = 0
        for _, slots in demands:
            union |= slots
        for slots in {union, *(demand.slots for demand in demands)}:
            if sum(demand.need for demand in demands if not demand.slots & ~slots) > self._most(slots):
                return False
        wanted: dict[str, int] = {}
        for (need, _), options, admin in bounds:
            if admin or len(options) > 1:
                continue
            for name, amount in self._least_draw[options[0].subrequest.number].items():
                wanted[name] = wanted.get(name, 0) + need * amount
        left: dict[str, int] = {}
        for place, amount in zip(attempt.layout.counters, attempt.left, strict=True):
            left[place.counter] = left.get(place.counter, 0) + max(amount, 0)
        return all(amount <= left[name] for name, amount in wanted.items())

    def _most(self, slots: int) -> int:
        """The maximum number of these slots that can be taken together with the remaining counters."""
        attempt = self._attempt
        # A shareable device consumes counters once: further shares consume none.
        charging = attempt.layout.consumers & ~(attempt.layout.shareable & (attempt.shared_before | attempt.touched))
        most = (slots & ~charging).bit_count()
        for group in self._groups:
            inside = slots & group.mask & charging
            if not inside:
                continue
            best = inside.bit_count()
            for counter, draws in zip(group.counters, group.draws, strict=True):
                drawing = 0
                for _, bit in draws:
                    drawing |= bit
                idle = (inside & ~drawing).bit_count()
                best = min(best, idle + most_within(draws, inside, attempt.left[counter]))
            for number, members in group.compatible:
                common = attempt.groups[number]
                outside = (inside & ~_union(members, -1)).bit_count()
                shared = [(mask & inside).bit_count() for i, mask in enumerate(members) if common >> i & 1]
                best = min(best, outside + max(shared, default=0))
            most += best
        return most

    def _enough_room(self, bounds: list[_Bound]) -> bool:
        """Whether the remaining capacity of shared devices may be sufficient for all requests together."""
        union = total = 0
        for (need, slots), _, admin in bounds:
            if admin:
                return True
            union |= slots
            total += need
        supply = (union & ~self._shared).bit_count()
        for slot in self._serves:
            if union >> slot & 1 and self._shared >> slot & 1:
                supply += self._serving(slot)
        return supply >= total


def _union(holders: tuple[int, ...], elements: int) -> int:
    mask = 0
    for i, slots in enumerate(holders):
        if elements >> i & 1:
            mask |= slots
    return mask


def _union_of(options: tuple[_Option, ...]) -> int:
    mask = 0
    for option in options:
        mask |= option.slots
    return mask
