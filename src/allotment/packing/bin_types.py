"""A bin type as arrays: the weight of each kind in each row, with dual feasible weights as additional rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from allotment.packing.dual_feasible import standard_functions
from allotment.packing.problem import Pieces, Problem

Integers: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class BinTypeArrays:
    """One `BinType`. ``kinds``: those that it can hold, ascending; all other arrays are in their order.

    ``weights[i, r]`` of ``capacity[r]``: first the rows themselves (all units together), then dual feasible weights.
    Every load that fits satisfies all of them. ``max_items``: the maximum number of items of a kind in one bin, by rows
    and ``BinType.max_items``; ``max_by_rows``: by rows only. ``independent_rows``: rows not implied by others.
    """

    number: int
    price: int
    max_count: int | None
    groups: tuple[str, ...]
    kinds: Integers
    weights: Integers
    capacity: Integers
    max_items: Integers
    max_by_rows: Integers
    independent_rows: Integers


@lru_cache(maxsize=1 << 16)
def _weights(size: int, pieces: Pieces) -> tuple[int, ...]:
    """The weights of pieces in a row with units of this size: their sum, then by each dual feasible function."""
    return (sum(pieces), *(sum(map(each.weight, pieces)) for each in standard_functions(size)))


def arrays_of(problem: Problem, number: int) -> BinTypeArrays:
    """Bin type ``number`` as arrays. A kind with a piece larger than a unit is not among its kinds."""
    bin_type = problem.bin_types[number]
    kinds: list[int] = []
    item_weights: list[tuple[int, ...]] = []
    for kind, needs in enumerate(problem.bin_types[number].needs):
        if needs is None or problem.counts[kind] <= 0:
            continue
        item: tuple[int, ...] = ()
        for row, pieces in zip(bin_type.rows, needs, strict=True):
            if pieces and (max(pieces) > row.size or sum(pieces) > row.units * row.size):
                break
            item += _weights(row.size, pieces)
        else:
            kinds.append(kind)
            item_weights.append(item)
    capacity: list[int] = []
    for row in bin_type.rows:
        capacity.append(row.units * row.size)
        capacity += (row.units * each.capacity for each in standard_functions(row.size))
    weights = np.array(item_weights, dtype=np.int64).reshape(len(kinds), len(capacity))
    capacities = np.array(capacity, dtype=np.int64)
    largest = np.iinfo(np.int64).max
    max_by_rows = np.full(len(kinds), largest, dtype=np.int64)
    for r in range(len(capacity)):
        used = weights[:, r] > 0
        max_by_rows[used] = np.minimum(max_by_rows[used], capacities[r] // weights[used, r])
    max_items = np.minimum(max_by_rows, np.array([problem.counts[kind] for kind in kinds], dtype=np.int64))
    if bin_type.max_items:
        limits = [bin_type.max_items[kind] for kind in kinds]
        max_items = np.minimum(
            max_items, np.array([largest if limit is None else limit for limit in limits], dtype=np.int64)
        )
    # The original rows come first: they decide what fits, the others follow from them.
    per_row = 1 + len(standard_functions(1))
    order = sorted(range(len(capacity)), key=lambda r: r % per_row != 0)
    fits = max_items > 0
    # With a single unit, the dual feasible weights follow from the size.
    independent = np.array(
        [i for i, r in enumerate(order) if r % per_row == 0 or bin_type.rows[r // per_row].units > 1]
    )
    return BinTypeArrays(
        number, bin_type.price, bin_type.max_count, bin_type.groups,
        np.array(kinds, dtype=np.int64)[fits], np.ascontiguousarray(weights[fits][:, order]), capacities[order],
        max_items[fits], max_by_rows[fits], independent,
    )  # fmt: skip


def dominated(types: list[BinTypeArrays]) -> set[int]:
    """Numbers of types that another one dominates: by rows it holds every load, it costs no more and has no limit.

    Of equal types the first stays. Lower bounds by rows are the same without dominated types. Constructions still need
    them: the exact check may reject a load in the better type and accept it in the worse one.
    """
    found: set[int] = set()
    order = sorted(types, key=lambda arrays: (arrays.price, arrays.number))
    for i, worse in enumerate(order):
        for better in order[:i]:
            if better.number in found or better.max_count is not None or not set(better.groups) <= set(worse.groups):
                continue
            if _dominates(better, worse):
                found.add(worse.number)
                break
    return found


def _dominates(better: BinTypeArrays, worse: BinTypeArrays) -> bool:
    """Whether every load that fits ``worse`` by rows also fits ``better``: no kind takes a larger share of any row."""
    if len(better.capacity) != len(worse.capacity) or not len(worse.kinds):
        return not len(worse.kinds)
    at = np.searchsorted(better.kinds, worse.kinds)
    if at.max(initial=0) >= len(better.kinds) or not np.array_equal(better.kinds[at], worse.kinds):
        return False
    if np.any(better.max_items[at] < worse.max_items):
        return False
    share = better.weights[at] / np.maximum(better.capacity, 1)
    return bool(np.all(share <= worse.weights / np.maximum(worse.capacity, 1)))


def with_row(arrays: BinTypeArrays, column: Integers, capacity: int) -> BinTypeArrays:
    """The arrays with one more row that every feasible load satisfies."""
    used = column > 0
    max_by_rows = arrays.max_by_rows.copy()
    max_by_rows[used] = np.minimum(max_by_rows[used], capacity // column[used])
    return replace(
        arrays,
        weights=np.hstack((arrays.weights, column[:, None])),
        capacity=np.append(arrays.capacity, capacity),
        max_by_rows=max_by_rows,
        independent_rows=np.append(arrays.independent_rows, len(arrays.capacity)),
        max_items=np.minimum(arrays.max_items, max_by_rows),
    )
