"""Loads of one sort that are worth more than they cost, or a proof that there is none.

Small bins are searched by `filling`. Where that search is cut short, an integer program goes on: slower at the start,
better at the end. If what is found does not fit unit by unit, a row is added that says so, and the search repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

import numpy as np

from allotment.packing.assignment_relaxation import ceiling
from allotment.packing.bin_types import Floats, Integers
from allotment.packing.cutting_planes import Sharpened
from allotment.packing.knapsack import fill, involved, row_ceiling, worthwhile
from allotment.packing.linear import INFINITY, Program
from allotment.packing.oracle import load_of
from allotment.packing.problem import Load

#: Against rounding within HiGHS, which is exact to 1e-9 in each of about a hundred terms.
_MARGIN = 1e-6
#: By how much more than asked a load must be worth, to be worth looking for.
_CLOSE = 1e-6
#: Loads of one search that are looked at.
_LOOKED_AT = 60
#: How many searches follow for other loads, and how much less their kinds count that were found.
_RELATIVES, _TIRED = 6, 0.99


@dataclass(frozen=True, slots=True)
class Effort:
    """``width``: partial loads at a time, and ``wider`` where they do not suffice. ``rows``: new ones for one question.

    ``nodes``: of the integer program.
    """

    width: int
    wider: int
    rows: int
    nodes: int


@dataclass(frozen=True, slots=True)
class Priced:
    """``bound``: no load that fits by rows, unit by unit, is worth more. ``loads``: best first, allowed by rows.

    ``kinds``: loads that are worth more than ``above``, if there are any, have no other kinds.
    """

    bound: float
    loads: list[Load]
    kinds: Integers
    above: float


def price(
    sharp: Sharpened,
    items: Floats,
    asked: float,
    allows: Callable[[int, Load], bool],
    effort: Effort,
    *,
    most: int,
    without: Set[int] = frozenset(),
) -> Priced:
    """At most so many loads worth more than ``asked`` under these values of items, by kind.

    ``without``: kinds that are not to be in it; then ``bound`` is about loads without them.
    """
    if without:
        items = items.copy()
        items[list(without)] = 0.0
    # Loads that are known already are worth just what is asked, give or take a rounding.
    asked *= 1 + _CLOSE
    enough = asked * (1 + _CLOSE)
    worth = items[sharp.sort.kinds]
    prices = sharp.prices(worth, 0)
    above = ceiling(sharp.sort, items, prices)
    if above <= asked:
        return Priced(above, [], sharp.sort.kinds[:0], asked)
    if effort.rows:
        prices = sharp.prices(worth, effort.rows)
    bound = above
    for _ in range(effort.rows + 2):
        for width in (effort.width, effort.wider):
            found = fill(sharp.sort, worth, sharp.sort.alone, prices, asked, width=width)
            if len(found.loads) or found.bound <= enough or width == effort.wider:
                break
        bound, tables = found.bound, found.loads
        if effort.nodes and bound > enough and not len(tables):
            bound, tables = _searched(sharp, worth, prices, asked, bound, effort.nodes)
        loads = _allowed(sharp, tables, allows, most)
        if loads and effort.rows:
            loads += _relatives(sharp, worth, prices, asked, tables[0], allows, effort.width)
        if loads or not len(tables) or not sharp.sharpen(tables[0].astype(np.float64), prices):
            break
        prices = sharp.prices(worth, 0)
        above = min(above, ceiling(sharp.sort, items, prices))
        if above <= asked:
            return Priced(above, [], sharp.sort.kinds[:0], asked)
    return Priced(min(bound, above), loads, involved(sharp.sort, worth, prices, asked), asked)


def _allowed(sharp: Sharpened, tables: Integers, allows: Callable[[int, Load], bool], most: int) -> list[Load]:
    """Of many loads the first that rows allow, each with some kind that those before it do not have."""
    loads: list[Load] = []
    covered = np.zeros(len(sharp.sort.kinds), dtype=bool)
    for counts in tables[:_LOOKED_AT]:
        if np.any((counts > 0) & ~covered):
            load = _load(sharp, counts)
            if allows(sharp.sort.number, load):
                loads.append(load)
                covered |= counts > 0
                if len(loads) == most:
                    break
    return loads


def _relatives(
    sharp: Sharpened,
    worth: Floats,
    prices: Floats,
    asked: float,
    first: Integers,
    allows: Callable[[int, Load], bool],
    width: int,
) -> list[Load]:
    """Loads worth more than asked too, of other kinds: what was found already counts a little less each time."""
    loads: list[Load] = []
    tired, counts = worth.copy(), first
    for _ in range(_RELATIVES):
        tired[counts > 0] *= _TIRED
        found = fill(sharp.sort, tired, sharp.sort.alone, prices, asked * _TIRED, width=width)
        good = found.loads[found.loads @ worth > asked]
        if not len(good):
            break
        counts = good[0]
        loads += _allowed(sharp, good, allows, 2)
    return loads


def _load(sharp: Sharpened, counts: Integers) -> Load:
    return load_of({int(sharp.sort.kinds[i]): int(counts[i]) for i in np.flatnonzero(counts)})


def _searched(
    sharp: Sharpened, worth: Floats, prices: Floats, asked: float, bound: float, nodes: int
) -> tuple[float, Integers]:
    """By an integer program: a bound, and a load worth more than asked if there is one."""
    sort = sharp.sort
    chosen = np.flatnonzero((worth > 0) & (sort.alone > 0))
    above = row_ceiling(sort, worth, prices)
    chosen, limit = worthwhile(sort, worth, sort.alone, prices, chosen, above - asked)
    if not len(chosen):
        return min(bound, asked * (1 + _MARGIN)), np.zeros((0, len(sort.kinds)), dtype=np.int64)
    n, rows = len(chosen), len(sort.capacity)
    unit = max(asked, 1e-300)
    # Only what is worth more than asked is looked for: most branches end at once.
    program = Program([-INFINITY] * rows + [1.0 + _MARGIN], [1.0] * rows + [INFINITY], exact=True)
    share = np.hstack((sort.weights[chosen] / np.maximum(sort.capacity, 1), worth[chosen, None] / unit))
    items, at = np.nonzero(share > 0)
    entries = np.bincount(items, minlength=n)
    program.add(-worth[chosen] / unit, np.cumsum(entries) - entries, at, share[items, at], limit.astype(np.float64))
    whole = program.whole(nodes=nodes, gap=1e-4)
    tables = np.zeros((0, len(sort.kinds)), dtype=np.int64)
    if whole.columns is not None:
        tables = np.zeros((1, len(sort.kinds)), dtype=np.int64)
        tables[0, chosen] = whole.columns.astype(np.int64)
    proven = 1.0 + _MARGIN if whole.bound == INFINITY else -whole.bound
    if not np.isfinite(proven):
        return bound, tables
    return min(bound, max(proven, 1.0 + _MARGIN) * (1 + 2 * _MARGIN) * unit), tables
