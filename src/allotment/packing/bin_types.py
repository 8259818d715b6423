"""A sort of bin as arrays: what each kind takes of it and how many fit alone, with the rows that sharpen its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from allotment.packing.dual_feasible import weighings
from allotment.packing.problem import Pieces, Problem

Integers: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Sort:
    """One ``Bin``. ``kinds``: those that may lie in it, ascending; all other arrays are in their order.

    ``weights[i, r]`` of ``capacity[r]``: first the rows themselves (all units together), then dual feasible weights.
    Every load that fits satisfies all of them. ``alone``: most of a kind in one such bin, by rows and ``Bin.each``.
    ``roomy``: by rows only. ``needed``: the rows that do not follow from others of them.
    """

    number: int
    price: int
    most: int | None
    groups: tuple[str, ...]
    kinds: Integers
    weights: Integers
    capacity: Integers
    alone: Integers
    roomy: Integers
    needed: Integers


@lru_cache(maxsize=1 << 16)
def _weights(size: int, pieces: Pieces) -> tuple[int, ...]:
    """What pieces weigh in a row of such units: by their size, then under its weighings."""
    return (sum(pieces), *(sum(map(each.weight, pieces)) for each in weighings(size)))


def sort_of(problem: Problem, number: int) -> Sort:
    """Bin ``number`` as arrays. A kind with a piece that no unit holds is not among its kinds."""
    bin = problem.bin_types[number]
    kinds: list[int] = []
    table: list[tuple[int, ...]] = []
    for kind, needs in enumerate(problem.bin_types[number].needs):
        if needs is None or problem.counts[kind] <= 0:
            continue
        line: tuple[int, ...] = ()
        for row, pieces in zip(bin.rows, needs, strict=True):
            if pieces and (max(pieces) > row.size or sum(pieces) > row.units * row.size):
                break
            line += _weights(row.size, pieces)
        else:
            kinds.append(kind)
            table.append(line)
    capacity: list[int] = []
    for row in bin.rows:
        capacity.append(row.units * row.size)
        capacity += (row.units * each.capacity for each in weighings(row.size))
    weights = np.array(table, dtype=np.int64).reshape(len(kinds), len(capacity))
    most = np.array(capacity, dtype=np.int64)
    big = np.iinfo(np.int64).max
    roomy = np.full(len(kinds), big, dtype=np.int64)
    for r in range(len(capacity)):
        asks = weights[:, r] > 0
        roomy[asks] = np.minimum(roomy[asks], most[r] // weights[asks, r])
    alone = np.minimum(roomy, np.array([problem.counts[kind] for kind in kinds], dtype=np.int64))
    if bin.max_items:
        limits = [bin.max_items[kind] for kind in kinds]
        alone = np.minimum(alone, np.array([big if limit is None else limit for limit in limits], dtype=np.int64))
    # The rows as they are come first: they alone say what fits, the others follow from them.
    per_row = 1 + len(weighings(1))
    order = sorted(range(len(capacity)), key=lambda r: r % per_row != 0)
    fits = alone > 0
    # What a single unit bears follows from its size alone.
    needed = np.array([i for i, r in enumerate(order) if r % per_row == 0 or bin.rows[r // per_row].units > 1])
    return Sort(
        number, bin.price, bin.max_count, bin.groups,
        np.array(kinds, dtype=np.int64)[fits], np.ascontiguousarray(weights[fits][:, order]), most[order],
        alone[fits], roomy[fits], needed,
    )  # fmt: skip


def dominated(sorts: list[Sort]) -> set[int]:
    """Numbers of sorts in whose place another would always do as well by rows, for no higher price and with no limit.

    Of equals the first stays. Bounds by rows are the same without them; a load that an exact check refuses in the
    better sort may still be held by the worse one, so whoever builds must not forget them.
    """
    gone: set[int] = set()
    order = sorted(sorts, key=lambda sort: (sort.price, sort.number))
    for i, worse in enumerate(order):
        for better in order[:i]:
            if better.number in gone or better.most is not None or not set(better.groups) <= set(worse.groups):
                continue
            if _covers(better, worse):
                gone.add(worse.number)
                break
    return gone


def _covers(better: Sort, worse: Sort) -> bool:
    """Whether all that fits ``worse`` by rows fits ``better`` by rows: a larger share of every row taken, by all."""
    if len(better.capacity) != len(worse.capacity) or not len(worse.kinds):
        return not len(worse.kinds)
    at = np.searchsorted(better.kinds, worse.kinds)
    if at.max(initial=0) >= len(better.kinds) or not np.array_equal(better.kinds[at], worse.kinds):
        return False
    if np.any(better.alone[at] < worse.alone):
        return False
    share = better.weights[at] / np.maximum(better.capacity, 1)
    return bool(np.all(share <= worse.weights / np.maximum(worse.capacity, 1)))


def with_row(sort: Sort, column: Integers, capacity: int) -> Sort:
    """The sort with one more row that every load satisfies."""
    asks = column > 0
    roomy = sort.roomy.copy()
    roomy[asks] = np.minimum(roomy[asks], capacity // column[asks])
    return replace(
        sort,
        weights=np.hstack((sort.weights, column[:, None])),
        capacity=np.append(sort.capacity, capacity),
        roomy=roomy,
        needed=np.append(sort.needed, len(sort.capacity)),
        alone=np.minimum(sort.alone, roomy),
    )
