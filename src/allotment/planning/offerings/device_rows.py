"""Capacity rows for a node's devices, and the minimum amounts that claims take of them.

Lower bounds rely on these amounts, so they never exceed the real ones. A request takes distinct devices of a set if all
its eligible devices are in the set; a share takes at least the smallest amount that an eligible device would give; a
partition draws at least the counters of the smallest eligible one. For prioritized alternatives, the minimum counts.
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
from allotment.planning.offerings.hypothetical_nodes import NodeDevices

#: Counters of which a device draws at most one each: a row for their sum is tighter than one for each counter.
_MEMORY_SLICE_PREFIX: Final = "memory-slice-"
#: Rows with a larger size are scaled down.
_MAX_ROW_SIZE: Final = 1 << 40
#: The name of the row for their sum.
MEMORY_SLICES: Final = "memory slices"
#: Maximum number of device sets with a row.
_MAX_DEVICE_SETS: Final = 16

#: The minimum amount of a row that one device for a request takes; 0 if unknown.
_MinimumAmount: TypeAlias = Callable[[Pattern, Subrequest], int]


class DeviceRows(NamedTuple):
    """The rows of a node's devices, and by shape the pieces of each row, in the same order."""

    rows: tuple[CapacityRow, ...]
    needs: tuple[tuple[Pieces, ...], ...]


def device_rows(devices: NodeDevices, shapes: Sequence[int]) -> DeviceRows:
    """The rows of a node's devices that at least one of these shapes uses."""
    patterns = [
        (devices.claim_shapes.shape_cache(devices.cluster, shape).shape, devices.pattern(shape)) for shape in shapes
    ]
    rows: list[CapacityRow] = []
    columns: list[tuple[Pieces, ...]] = []
    known: set[tuple[int, int, tuple[Pieces, ...]]] = set()
    shareable = devices.view.layout.shareable
    for row, least in _rows(devices.view, devices.initial, patterns):
        column = tuple(
            _shape_pieces(shape, pattern, least, shareable if shape.release.all_skips_full_devices else 0)
            for shape, pattern in patterns
        )
        row, column = _scaled_down(row, column)
        sized = (row.units, row.size, column)
        if any(column) and sized not in known:
            known.add(sized)
            rows.append(row)
            columns.append(column)
    return DeviceRows(tuple(rows), tuple(zip(*columns, strict=True)) if columns else tuple(() for _ in shapes))


def _scaled_down(row: CapacityRow, column: tuple[Pieces, ...]) -> tuple[CapacityRow, tuple[Pieces, ...]]:
    """The row divided by the greatest common divisor of its amounts, and further if it is still too large.

    Amounts are in nano units, whose sums could exceed 64 bits. Rounding favors the items, so that bounds stay valid.
    """
    common = math.gcd(row.size, *(piece for pieces in column for piece in pieces))
    common *= max(1, -(-row.size // (common * _MAX_ROW_SIZE)))
    size = -(-row.size // common)
    return CapacityRow(row.name, row.units, size), tuple(
        tuple(piece // common for piece in pieces) for pieces in column
    )


def _shape_pieces(shape: ClaimShape, pattern: Pattern, least: _MinimumAmount, optional: int) -> Pieces:
    """The pieces of all requests of a shape. ``optional``: slots that mode All skips if they are full."""
    found: list[int] = []
    for claim in shape.claims:
        for request in claim.requests:
            found += _request_pieces(request, pattern, least, optional)
    return tuple(sorted(found, reverse=True))


def _request_pieces(request: CompiledRequest, pattern: Pattern, least: _MinimumAmount, optional: int) -> Pieces:
    """The minimum over the request's alternatives, piece by piece, the largest first."""
    possible = [
        subrequest for subrequest in request.subrequests if subrequest.admin or pattern.eligible[subrequest.number]
    ]
    options = [_alternative_pieces(subrequest, pattern, least, optional) for subrequest in possible]
    taken = options[0] if options else ()
    for option in options[1:]:
        taken = tuple(min(a, b) for a, b in zip(taken, option, strict=False))
    return taken


def _alternative_pieces(subrequest: Subrequest, pattern: Pattern, least: _MinimumAmount, optional: int) -> Pieces:
    if subrequest.admin:
        return ()
    amount = least(pattern, subrequest)
    count = (
        max(1, (pattern.listed[subrequest.number] & ~optional).bit_count())
        if subrequest.all
        else subrequest.device_count
    )
    return (amount,) * count if amount > 0 else ()


# --- rows --------------------------------------------------------------------------------------------------------


def _rows(
    view: NodeView, state: NodeState, patterns: Iterable[tuple[ClaimShape, Pattern]]
) -> Iterator[tuple[CapacityRow, _MinimumAmount]]:
    layout = view.layout
    consumers = layout.consumers
    exclusive = ((1 << layout.size) - 1) & ~layout.shareable & ~consumers
    sets: dict[int, None] = {}
    for shape, pattern in patterns:
        for subrequest in shape.subrequests:
            eligible = pattern.eligible[subrequest.number]
            if eligible and not eligible & ~exclusive and len(sets) < _MAX_DEVICE_SETS:
                sets[eligible] = None
    for mask in sets:
        free = (mask & ~state.in_use).bit_count()
        if free:
            yield CapacityRow("devices", free, 1), _one_device_of(mask)
    yield from _shares(view, state)
    if not consumers & layout.shareable:
        # A shared device draws from its counters once for all its shares.
        yield from _counters(view, state)


def _one_device_of(mask: int) -> _MinimumAmount:
    return lambda pattern, subrequest: int(
        bool(eligible := pattern.eligible[subrequest.number]) and not eligible & ~mask
    )


def _shares(view: NodeView, state: NodeState) -> Iterator[tuple[CapacityRow, _MinimumAmount]]:
    layout, consumed = view.layout, dict(state.consumed)
    positions: dict[str, dict[int, tuple[int, int]]] = {}
    for slot in slots_of(layout.shareable):
        for position, (name, limit) in enumerate(layout.traits[slot].limits.items()):
            amounts = consumed.get(slot, ())
            left = limit - (amounts[position] if amounts else 0)
            positions.setdefault(name, {})[slot] = (position, left)
    for name, slots in positions.items():
        size = max(left for _, left in slots.values())
        if size > 0:
            yield (
                CapacityRow(f"shares of {name}", len(slots), size),
                _minimum_share({slot: position for slot, (position, _) in slots.items()}),
            )


def _minimum_share(positions: dict[int, int]) -> _MinimumAmount:
    mask = sum(1 << slot for slot in positions)

    def least(pattern: Pattern, subrequest: Subrequest) -> int:
        eligible = pattern.eligible[subrequest.number]
        if not eligible or eligible & ~mask:
            return 0
        amounts = (pattern.profiles[slot].amounts[subrequest.number] for slot in slots_of(eligible))
        return min(
            (a[position] if a else 0)
            for a, position in zip(amounts, (positions[s] for s in slots_of(eligible)), strict=True)
        )

    return least


def _counters(view: NodeView, state: NodeState) -> Iterator[tuple[CapacityRow, _MinimumAmount]]:
    layout = view.layout
    if not layout.counters:
        return
    left = available(layout, state)
    total: dict[str, dict[tuple[int, str], int]] = {}
    names = [_counter_row_name(counter.counter) for counter in layout.counters]
    for number, counter in enumerate(layout.counters):
        sets = total.setdefault(names[number], {})
        sets[counter.pool, counter.counter_set] = sets.get((counter.pool, counter.counter_set), 0) + left[number]
    for name, sets in total.items():
        draws: dict[int, int] = {}
        for slot in slots_of(layout.consumers):
            draws_of = [(layout.counters[c], amount) for c, amount in layout.uses[slot] if names[c] == name]
            if len({(c.pool, c.counter_set) for c, _ in draws_of}) == 1:
                draws[slot] = sum(amount for _, amount in draws_of)
        size = max(sets.values())
        if draws and size > 0:
            yield CapacityRow(name, len(sets), size), _minimum_draw(draws)


def _counter_row_name(counter: str) -> str:
    return MEMORY_SLICES if counter.startswith(_MEMORY_SLICE_PREFIX) else f"counter {counter}"


def _minimum_draw(draws: dict[int, int]) -> _MinimumAmount:
    mask = sum(1 << slot for slot in draws)

    def least(pattern: Pattern, subrequest: Subrequest) -> int:
        eligible = pattern.eligible[subrequest.number]
        return min(draws[slot] for slot in slots_of(eligible)) if eligible and not eligible & ~mask else 0

    return least
