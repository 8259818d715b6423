"""Pricing: the loads of one bin type that are worth more than it costs, or a proof that there is none.

`knapsack` searches first. If it reaches its limits, an integer program continues: slower to start, better for large
bins. If a load that is found does not fit unit by unit, cuts are added and the search is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

import numpy as np

from allotment.packing.assignment_relaxation import load_value_bound
from allotment.packing.bin_types import Floats, Integers
from allotment.packing.cutting_planes import TightenedBinType
from allotment.packing.knapsack import contributing_kinds, relevant_kinds, row_bound, valuable_loads
from allotment.packing.linear import INFINITY, Program
from allotment.packing.oracle import load_of
from allotment.packing.problem import Load

#: Safety margin for rounding in HiGHS, which is exact to 1e-9 in each of about a hundred terms.
_MARGIN = 1e-6
#: The fraction by which a load's value must exceed the threshold.
_CLOSE = 1e-6
#: Maximum number of loads that are examined after one search.
_MAX_EXAMINED = 60
#: Searches for further loads, and the factor on the values of kinds that were found already.
_DIVERSE_LOADS, _DISCOUNT = 6, 0.99


@dataclass(frozen=True, slots=True)
class Effort:
    """The limits of one search. ``width``: partial loads at a time; ``wider``: in a second attempt.

    ``rows``: maximum number of new cuts. ``nodes``: of the integer program.
    """

    width: int
    wider: int
    rows: int
    nodes: int


@dataclass(frozen=True, slots=True)
class PricingResult:
    """``bound``: on the value of any load that fits the rows, unit by unit. ``loads``: best first; they fit the rows.

    ``kinds``: the only kinds that a load worth more than ``threshold`` can have.
    """

    bound: float
    loads: list[Load]
    kinds: Integers
    threshold: float


def price_loads(
    tightened: TightenedBinType,
    items: Floats,
    threshold: float,
    fits_rows: Callable[[int, Load], bool],
    effort: Effort,
    *,
    max_loads: int,
    excluded: Set[int] = frozenset(),
) -> PricingResult:
    """At most ``max_loads`` loads worth more than ``threshold``. ``items``: value of one item by kind.

    ``excluded``: kinds that loads must not have; ``bound`` then holds for loads without them.
    """
    if excluded:
        items = items.copy()
        items[list(excluded)] = 0.0
    # Known loads are worth exactly the threshold, up to rounding.
    threshold *= 1 + _CLOSE
    enough = threshold * (1 + _CLOSE)
    worth = items[tightened.arrays.kinds]
    prices = tightened.row_prices(worth, 0)
    value_bound = load_value_bound(tightened.arrays, items, prices)
    if value_bound <= threshold:
        return PricingResult(value_bound, [], tightened.arrays.kinds[:0], threshold)
    if effort.rows:
        prices = tightened.row_prices(worth, effort.rows)
    bound = value_bound
    for _ in range(effort.rows + 2):
        for width in (effort.width, effort.wider):
            found = valuable_loads(tightened.arrays, worth, tightened.arrays.max_items, prices, threshold, width=width)
            if len(found.loads) or found.bound <= enough or width == effort.wider:
                break
        bound, tables = found.bound, found.loads
        if effort.nodes and bound > enough and not len(tables):
            bound, tables = _search_integer(tightened, worth, prices, threshold, bound, effort.nodes)
        loads = _feasible_loads(tightened, tables, fits_rows, max_loads)
        if loads and effort.rows:
            loads += _diverse_loads(tightened, worth, prices, threshold, tables[0], fits_rows, effort.width)
        if loads or not len(tables) or not tightened.add_cuts(tables[0].astype(np.float64), prices):
            break
        prices = tightened.row_prices(worth, 0)
        value_bound = min(value_bound, load_value_bound(tightened.arrays, items, prices))
        if value_bound <= threshold:
            return PricingResult(value_bound, [], tightened.arrays.kinds[:0], threshold)
    return PricingResult(
        min(bound, value_bound), loads, contributing_kinds(tightened.arrays, worth, prices, threshold), threshold
    )


def _feasible_loads(
    tightened: TightenedBinType, tables: Integers, fits_rows: Callable[[int, Load], bool], max_loads: int
) -> list[Load]:
    """The first loads that fit the rows, each with a kind that no earlier one has."""
    loads: list[Load] = []
    covered = np.zeros(len(tightened.arrays.kinds), dtype=bool)
    for counts in tables[:_MAX_EXAMINED]:
        if np.any((counts > 0) & ~covered):
            load = _load(tightened, counts)
            if fits_rows(tightened.arrays.number, load):
                loads.append(load)
                covered |= counts > 0
                if len(loads) == max_loads:
                    break
    return loads


def _diverse_loads(
    tightened: TightenedBinType,
    worth: Floats,
    prices: Floats,
    threshold: float,
    first: Integers,
    fits_rows: Callable[[int, Load], bool],
    width: int,
) -> list[Load]:
    """Further loads above the threshold, with other kinds: the values of kinds found already are discounted."""
    loads: list[Load] = []
    discounted, counts = worth.copy(), first
    for _ in range(_DIVERSE_LOADS):
        discounted[counts > 0] *= _DISCOUNT
        found = valuable_loads(
            tightened.arrays, discounted, tightened.arrays.max_items, prices, threshold * _DISCOUNT, width=width
        )
        good = found.loads[found.loads @ worth > threshold]
        if not len(good):
            break
        counts = good[0]
        loads += _feasible_loads(tightened, good, fits_rows, 2)
    return loads


def _load(tightened: TightenedBinType, counts: Integers) -> Load:
    return load_of({int(tightened.arrays.kinds[i]): int(counts[i]) for i in np.flatnonzero(counts)})


def _search_integer(
    tightened: TightenedBinType, worth: Floats, prices: Floats, threshold: float, bound: float, nodes: int
) -> tuple[float, Integers]:
    """A bound by an integer program, and a load worth more than the threshold if there is one."""
    arrays = tightened.arrays
    chosen = np.flatnonzero((worth > 0) & (arrays.max_items > 0))
    value_bound = row_bound(arrays, worth, prices)
    chosen, limit = relevant_kinds(arrays, worth, arrays.max_items, prices, chosen, value_bound - threshold)
    if not len(chosen):
        return min(bound, threshold * (1 + _MARGIN)), np.zeros((0, len(arrays.kinds)), dtype=np.int64)
    n, rows = len(chosen), len(arrays.capacity)
    unit = max(threshold, 1e-300)
    # Only loads above the threshold are searched for, so that most branches end early.
    program = Program([-INFINITY] * rows + [1.0 + _MARGIN], [1.0] * rows + [INFINITY], exact=True)
    share = np.hstack((arrays.weights[chosen] / np.maximum(arrays.capacity, 1), worth[chosen, None] / unit))
    items, at = np.nonzero(share > 0)
    entries = np.bincount(items, minlength=n)
    program.add_columns(
        -worth[chosen] / unit, np.cumsum(entries) - entries, at, share[items, at], limit.astype(np.float64)
    )
    solution = program.solve_integer(nodes=nodes, gap=1e-4)
    tables = np.zeros((0, len(arrays.kinds)), dtype=np.int64)
    if solution.columns is not None:
        tables = np.zeros((1, len(arrays.kinds)), dtype=np.int64)
        tables[0, chosen] = solution.columns.astype(np.int64)
    proven = 1.0 + _MARGIN if solution.bound == INFINITY else -solution.bound
    if not np.isfinite(proven):
        return bound, tables
    return min(bound, max(proven, 1.0 + _MARGIN) * (1 + 2 * _MARGIN) * unit), tables
