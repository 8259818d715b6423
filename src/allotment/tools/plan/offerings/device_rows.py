"""How much of a node's devices claims take at least: rows of a packing that are necessary, whatever the engine finds.

Never more than is really taken: a lower bound hangs on these figures. A request takes distinct devices of a set if all
that suit it are in the set; a share takes at least the smallest amount that any device which suits would give; a
partition draws at least what the smallest one that suits does. Where alternatives are given, the least of them counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from allotment.engine.claims.requests import ClaimShape, CompiledRequest, Subrequest
from allotment.engine.cluster.layout import NodeState, NodeView, available
from allotment.engine.search.attempt import slots_of
from allotment.engine.search.pattern import Pattern
from allotment.packing.problem import CapacityRow, Pieces
from allotment.tools.plan.offerings.hypothetical_nodes import DeviceRoom

#: Counters of one sort, of which a device takes one each: their sum says more than any of them alone.
_SLICES: Final = "memory-slice-"
#: Sizes of rows beyond this are rounded.
_LARGEST: Final = 1 << 40
#: The row of their sum.
MEMORY_SLICES: Final = "memory slices"
#: More sets of devices than this are not told apart.
_MOST_SETS: Final = 16

#: What one device for an ask takes of a row at least, 0 if nothing is certain.
_Least: TypeAlias = Callable[[Pattern, Subrequest], int]


class Measured(NamedTuple):
    """Rows of a node's devices, and what each shape takes of them, in their order."""

    rows: tuple[CapacityRow, ...]
    needs: tuple[tuple[Pieces, ...], ...]


def measure(room: DeviceRoom, shapes: Sequence[int]) -> Measured:
    """The rows of a node's devices that any of these shapes takes something of."""
    asked = [(room.steps.work(room.stage, shape).shape, room.pattern(shape)) for shape in shapes]
    rows: list[CapacityRow] = []
    columns: list[tuple[Pieces, ...]] = []
    known: set[tuple[int, int, tuple[Pieces, ...]]] = set()
    shareable = room.view.layout.shareable
    for row, least in _rows(room.view, room.initial, asked):
        column = tuple(
            _of_shape(shape, pattern, least, shareable if shape.release.all_skips_full_devices else 0)
            for shape, pattern in asked
        )
        row, column = _in_small_numbers(row, column)
        sized = (row.units, row.size, column)
        if any(column) and sized not in known:
            known.add(sized)
            rows.append(row)
            columns.append(column)
    return Measured(tuple(rows), tuple(zip(*columns, strict=True)) if columns else tuple(() for _ in shapes))


def _in_small_numbers(row: CapacityRow, column: tuple[Pieces, ...]) -> tuple[CapacityRow, tuple[Pieces, ...]]:
    """Amounts are in nano, whose sums leave no room in 64 bits: divided by what they have in common, and by more where
    that is not enough, in favour of what is to be packed."""
    common = math.gcd(row.size, *(piece for pieces in column for piece in pieces))
    common *= max(1, -(-row.size // (common * _LARGEST)))
    size = -(-row.size // common)
    return CapacityRow(row.name, row.units, size), tuple(
        tuple(piece // common for piece in pieces) for pieces in column
    )


def _of_shape(shape: ClaimShape, pattern: Pattern, least: _Least, optional: int) -> Pieces:
    """Of all requests of a shape together. ``optional``: slots that "all" leaves out when they are full."""
    found: list[int] = []
    for claim in shape.claims:
        for request in claim.requests:
            found += _of_request(request, pattern, least, optional)
    return tuple(sorted(found, reverse=True))


def _of_request(request: CompiledRequest, pattern: Pattern, least: _Least, optional: int) -> Pieces:
    """Of several alternatives what even the least of them takes: piece by piece, the largest first."""
    possible = [ask for ask in request.subrequests if ask.admin or pattern.eligible[ask.number]]
    options = [_of_ask(ask, pattern, least, optional) for ask in possible]
    taken = options[0] if options else ()
    for option in options[1:]:
        taken = tuple(min(a, b) for a, b in zip(taken, option, strict=False))
    return taken


def _of_ask(ask: Subrequest, pattern: Pattern, least: _Least, optional: int) -> Pieces:
    if ask.admin:
        return ()
    amount = least(pattern, ask)
    count = max(1, (pattern.listed[ask.number] & ~optional).bit_count()) if ask.all else ask.device_count
    return (amount,) * count if amount > 0 else ()


# --- rows --------------------------------------------------------------------------------------------------------


def _rows(
    view: NodeView, state: NodeState, asked: Iterable[tuple[ClaimShape, Pattern]]
) -> Iterator[tuple[CapacityRow, _Least]]:
    layout = view.layout
    drawing = layout.consumers
    taken_whole = ((1 << layout.size) - 1) & ~layout.shareable & ~drawing
    sets: dict[int, None] = {}
    for shape, pattern in asked:
        for ask in shape.subrequests:
            suits = pattern.eligible[ask.number]
            if suits and not suits & ~taken_whole and len(sets) < _MOST_SETS:
                sets[suits] = None
    for mask in sets:
        free = (mask & ~state.in_use).bit_count()
        if free:
            yield CapacityRow("devices", free, 1), _one_of(mask)
    yield from _shares(view, state)
    if not drawing & layout.shareable:
        # A device that is shared draws from its counters once for all its shares.
        yield from _counters(view, state)


def _one_of(mask: int) -> _Least:
    return lambda pattern, ask: int(bool(suits := pattern.eligible[ask.number]) and not suits & ~mask)


def _shares(view: NodeView, state: NodeState) -> Iterator[tuple[CapacityRow, _Least]]:
    layout, consumed = view.layout, dict(state.consumed)
    places: dict[str, dict[int, tuple[int, int]]] = {}
    for slot in slots_of(layout.shareable):
        for place, (name, limit) in enumerate(layout.traits[slot].limits.items()):
            before = consumed.get(slot, ())
            left = limit - (before[place] if before else 0)
            places.setdefault(name, {})[slot] = (place, left)
    for name, at in places.items():
        size = max(left for _, left in at.values())
        if size > 0:
            yield (
                CapacityRow(f"shares of {name}", len(at), size),
                _share_of({slot: place for slot, (place, _) in at.items()}),
            )


def _share_of(places: dict[int, int]) -> _Least:
    mask = sum(1 << slot for slot in places)

    def least(pattern: Pattern, ask: Subrequest) -> int:
        suits = pattern.eligible[ask.number]
        if not suits or suits & ~mask:
            return 0
        amounts = (pattern.profiles[slot].amounts[ask.number] for slot in slots_of(suits))
        return min(
            (a[place] if a else 0) for a, place in zip(amounts, (places[s] for s in slots_of(suits)), strict=True)
        )

    return least


def _counters(view: NodeView, state: NodeState) -> Iterator[tuple[CapacityRow, _Least]]:
    layout = view.layout
    if not layout.counters:
        return
    left = available(layout, state)
    total: dict[str, dict[tuple[int, str], int]] = {}
    names = [_sort(counter.counter) for counter in layout.counters]
    for number, counter in enumerate(layout.counters):
        sets = total.setdefault(names[number], {})
        sets[counter.pool, counter.counter_set] = sets.get((counter.pool, counter.counter_set), 0) + left[number]
    for name, sets in total.items():
        draws: dict[int, int] = {}
        for slot in slots_of(layout.consumers):
            uses = [(layout.counters[c], amount) for c, amount in layout.uses[slot] if names[c] == name]
            if len({(c.pool, c.counter_set) for c, _ in uses}) == 1:
                draws[slot] = sum(amount for _, amount in uses)
        size = max(sets.values())
        if draws and size > 0:
            yield CapacityRow(name, len(sets), size), _drawn(draws)


def _sort(counter: str) -> str:
    return MEMORY_SLICES if counter.startswith(_SLICES) else f"counter {counter}"


def _drawn(draws: dict[int, int]) -> _Least:
    mask = sum(1 << slot for slot in draws)

    def least(pattern: Pattern, ask: Subrequest) -> int:
        suits = pattern.eligible[ask.number]
        return min(draws[slot] for slot in slots_of(suits)) if suits and not suits & ~mask else 0

    return least
