"""The most valuable loads of one bin by beam search, with an upper bound on the value of any load.

Loads are built kind by kind, biggest first. Two bounds limit the value that a partial load can still gain: the prices
per weight of all rows (duals of a linear program), and an integer knapsack table over the rows summed up by these
prices. Partial loads that cannot reach the threshold are dropped. If too many remain, the least promising ones are
dropped too, and the returned bound includes their potential, so that it holds for any width.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from allotment.packing.bin_types import BinTypeArrays, Flags, Floats, Integers

#: Cells of the knapsack table over the summed row.
_CELLS = 4096
#: Safety margin for rounding in sums of doubles, as a fraction: thousands of times the possible error.
_MARGIN = 1e-9


@dataclass(frozen=True, slots=True)
class KnapsackResult:
    """``bound``: on the value of any load. ``loads``: counts in the order of ``BinTypeArrays.kinds``, best first, with
    their ``values``."""

    bound: float
    values: Floats
    loads: Integers


def valuable_loads(
    arrays: BinTypeArrays,
    values: Floats,
    limits: Integers,
    prices: Floats,
    threshold: float,
    *,
    width: int,
    only_best: bool = False,
) -> KnapsackResult:
    """Loads worth more than ``threshold``, with at most ``limits`` items of each kind.

    ``prices``: per weight of each row; any prices >= 0 are valid, good ones make the search short. ``width``: maximum
    number of partial loads at a time.
    """
    nothing = KnapsackResult(threshold, np.zeros(0), np.zeros((0, len(arrays.kinds)), dtype=np.int64))
    limits = np.minimum(limits, arrays.max_items)
    chosen = np.flatnonzero((values > 0) & (limits > 0))
    if not len(chosen):
        return KnapsackResult(0.0, nothing.values, nothing.loads)
    ceiling = row_bound(arrays, values, prices, limits)
    if ceiling <= threshold:
        return KnapsackResult(ceiling, nothing.values, nothing.loads)
    chosen, limit = relevant_kinds(arrays, values, limits, prices, chosen, ceiling - threshold)
    if not len(chosen):
        return KnapsackResult(min(ceiling, threshold * (1 + _MARGIN)), nothing.values, nothing.loads)
    charge = arrays.weights[chosen] @ prices
    total = float(arrays.capacity @ prices)
    order = np.argsort(-charge, kind="stable")
    chosen, charge, limit = chosen[order], charge[order], limit[order]
    worth, weights = values[chosen], np.ascontiguousarray(arrays.weights[chosen][:, arrays.independent_rows])
    cells = np.floor(charge / max(total, 1e-300) * _CELLS * (1 - _MARGIN)).astype(np.int64)
    per = _CELLS / max(total, 1e-300)
    tables = _value_tables(worth, limit, cells)
    n = len(chosen)
    free = arrays.capacity[None, arrays.independent_rows].copy()
    bill = np.array([total])
    value = np.zeros(1)
    counts = np.zeros((1, n), dtype=np.int16)
    dropped = 0.0
    best = threshold
    best_counts: npt.NDArray[np.int16] | None = None
    share = 1.0 if only_best else 0.5
    for j in range(n):
        rooms, bills, worths, many = [free], [bill], [value], [counts]
        last_room, last_bill, last_value, last_counts = free, bill, value, counts
        for _ in range(int(limit[j])):
            fits = np.flatnonzero((last_room >= weights[j]).all(axis=1))
            if not len(fits):
                break
            last_room = last_room[fits] - weights[j]
            last_bill = last_bill[fits] - charge[j]
            last_value = last_value[fits] + worth[j]
            last_counts = last_counts[fits].copy()
            last_counts[:, j] += 1
            rooms.append(last_room)
            bills.append(last_bill)
            worths.append(last_value)
            many.append(last_counts)
        if len(rooms) > 1:
            free, bill = np.concatenate(rooms), np.concatenate(bills)
            value, counts = np.concatenate(worths), np.concatenate(many)
        cell = (bill * per + 1e-6).astype(np.int64)
        potential = (value + tables[j + 1].take(cell, mode="clip")) * (1 + _MARGIN)
        top = int(value.argmax())
        if value[top] > best:
            best, best_counts = float(value[top]), counts[top].copy()
        # Loads slightly below the best one are kept too: they make the next search cheaper.
        promising = np.flatnonzero(potential > threshold + share * (best - threshold))
        if not len(promising):
            value = value[:0]
            break
        if len(promising) > width:
            ranked = promising[np.argsort(-potential[promising], kind="stable")]
            dropped = max(dropped, float(potential[ranked[width]]))
            promising = ranked[:width]
        if len(promising) < len(value):
            free, bill, value, counts = free[promising], bill[promising], value[promising], counts[promising]
    above = np.flatnonzero(value > threshold)
    above = above[np.argsort(-value[above], kind="stable")]
    kept, gained = counts[above], value[above]
    if best_counts is not None and (not len(above) or gained[0] < best):
        # The best load was dropped on the way, for partial loads with a higher potential.
        kept, gained = np.vstack((best_counts[None, :], kept)), np.concatenate((np.array([best]), gained))
    loads = np.zeros((len(kept), len(arrays.kinds)), dtype=np.int64)
    loads[:, chosen] = kept
    return KnapsackResult(min(ceiling, max(best * (1 + _MARGIN), dropped)), gained, loads)


def row_bound(arrays: BinTypeArrays, values: Floats, prices: Floats, limits: Integers | None = None) -> float:
    """An upper bound on the value of a load by the row prices alone, with a margin for rounding."""
    above = np.maximum(values - arrays.weights @ prices, 0.0)
    max_items = arrays.max_items if limits is None else limits
    return float((arrays.capacity @ prices + (max_items * above).sum()) * (1 + _MARGIN))


def contributing_kinds(arrays: BinTypeArrays, values: Floats, prices: Floats, threshold: float) -> Integers:
    """The kinds that a load worth more than ``threshold`` can have: others lose too much against the row bound."""
    lost = np.maximum(arrays.weights @ prices - values, 0.0)
    slack = row_bound(arrays, values, prices) - threshold
    return arrays.kinds[(values > 0) & (lost <= slack * (1 + 1e-6))]


def relevant_kinds(
    arrays: BinTypeArrays, values: Floats, limits: Integers, prices: Floats, chosen: Integers, slack: float
) -> tuple[Integers, Integers]:
    """The chosen kinds that a load above the threshold can have, and the maximum number of each.

    ``slack``: the loss against the row bound that a load can afford. An item loses the value of its rows above its own.
    """
    lost = np.maximum(arrays.weights[chosen] @ prices - values[chosen], 0.0)
    max_affordable = np.floor(np.minimum(slack * (1 + 1e-6) / np.maximum(lost, 1e-12), 1e9)).astype(np.int64)
    keep = undominated(arrays.weights[chosen], values[chosen], limits[chosen] >= arrays.max_by_rows[chosen])
    keep = keep[max_affordable[keep] > 0]
    return chosen[keep], np.minimum(limits[chosen[keep]], max_affordable[keep])


def undominated(weights: Integers, values: Floats, unlimited: Flags) -> Integers:
    """The kinds that no other kind dominates, which is unlimited, no heavier in any row and worth at least as much."""
    no_heavier = (weights[None, :, :] <= weights[:, None, :]).all(axis=2)
    worth = values[None, :] >= values[:, None]
    beats = no_heavier & worth & unlimited[None, :]
    # Of two kinds that dominate each other the first stays.
    n = len(values)
    both = beats & beats.T
    beats &= ~both | (np.arange(n)[None, :] < np.arange(n)[:, None])
    return np.flatnonzero(~beats.any(axis=1))


def _value_tables(worth: Floats, limit: Integers, cells: Integers) -> list[Floats]:
    """By kind and free cells of the summed row, the maximum value of this kind and those after it."""
    table = np.zeros(_CELLS + 1)
    tables = [table]
    for j in range(len(worth) - 1, -1, -1):
        most, step = int(limit[j]), int(cells[j])
        best = table + (worth[j] * most if step == 0 else 0.0)
        if step:
            for m in range(1, min(most, _CELLS // step) + 1):
                np.maximum(best[m * step :], table[: _CELLS + 1 - m * step] + m * worth[j], out=best[m * step :])
        table = best
        tables.append(table)
    tables.reverse()
    return tables
