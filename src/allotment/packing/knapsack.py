"""The most valuable loads of one bin, and a proof that none is worth more: what prices new loads and proves bounds.

A load takes one kind after the other, biggest first. What can still come is bounded twice: by prices per weight of all
rows (a linear program's duals), and by a table over one summed row, the rows weighed by those prices, in which items
are whole. Partial loads that cannot reach what is asked are dropped; if too many are left, the least promising ones go,
and the bound remembers what they might have been worth. So the bound holds however short the search is cut.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from allotment.packing.bin_types import Flags, Floats, Integers, Sort

#: Cells of the table over the summed row.
_CELLS = 4096
#: Against rounding in sums of doubles, as a fraction: thousands of times what they can lose.
_MARGIN = 1e-9


@dataclass(frozen=True, slots=True)
class Filled:
    """``bound``: no load is worth more. ``loads``: by kind's place in the sort, best first, with ``values``."""

    bound: float
    values: Floats
    loads: Integers


def fill(
    sort: Sort, values: Floats, limits: Integers, prices: Floats, asked: float, *, width: int, only_best: bool = False
) -> Filled:
    """Loads worth more than ``asked``, at most ``limits`` of each kind.

    ``prices``: per weight of each row, any that are not negative; good ones make the search short. ``width``: most
    partial loads at a time.
    """
    nothing = Filled(asked, np.zeros(0), np.zeros((0, len(sort.kinds)), dtype=np.int64))
    limits = np.minimum(limits, sort.alone)
    chosen = np.flatnonzero((values > 0) & (limits > 0))
    if not len(chosen):
        return Filled(0.0, nothing.values, nothing.loads)
    ceiling = row_ceiling(sort, values, prices, limits)
    if ceiling <= asked:
        return Filled(ceiling, nothing.values, nothing.loads)
    chosen, limit = worthwhile(sort, values, limits, prices, chosen, ceiling - asked)
    if not len(chosen):
        return Filled(min(ceiling, asked * (1 + _MARGIN)), nothing.values, nothing.loads)
    charge = sort.weights[chosen] @ prices
    total = float(sort.capacity @ prices)
    order = np.argsort(-charge, kind="stable")
    chosen, charge, limit = chosen[order], charge[order], limit[order]
    worth, weights = values[chosen], np.ascontiguousarray(sort.weights[chosen][:, sort.needed])
    cells = np.floor(charge / max(total, 1e-300) * _CELLS * (1 - _MARGIN)).astype(np.int64)
    per = _CELLS / max(total, 1e-300)
    tables = _tables(worth, limit, cells)
    n = len(chosen)
    room = sort.capacity[None, sort.needed].copy()
    bill = np.array([total])
    value = np.zeros(1)
    counts = np.zeros((1, n), dtype=np.int16)
    dropped = 0.0
    best = asked
    best_counts: npt.NDArray[np.int16] | None = None
    share = 1.0 if only_best else 0.5
    for j in range(n):
        rooms, bills, worths, many = [room], [bill], [value], [counts]
        last_room, last_bill, last_value, last_counts = room, bill, value, counts
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
            room, bill = np.concatenate(rooms), np.concatenate(bills)
            value, counts = np.concatenate(worths), np.concatenate(many)
        cell = (bill * per + 1e-6).astype(np.int64)
        hope = (value + tables[j + 1].take(cell, mode="clip")) * (1 + _MARGIN)
        top = int(value.argmax())
        if value[top] > best:
            best, best_counts = float(value[top]), counts[top].copy()
        # Some that are not quite the best are wanted too: they make the next question cheaper.
        good = np.flatnonzero(hope > asked + share * (best - asked))
        if not len(good):
            value = value[:0]
            break
        if len(good) > width:
            ranked = good[np.argsort(-hope[good], kind="stable")]
            dropped = max(dropped, float(hope[ranked[width]]))
            good = ranked[:width]
        if len(good) < len(value):
            room, bill, value, counts = room[good], bill[good], value[good], counts[good]
    over = np.flatnonzero(value > asked)
    over = over[np.argsort(-value[over], kind="stable")]
    kept, gained = counts[over], value[over]
    if best_counts is not None and (not len(over) or gained[0] < best):
        # The best was dropped on the way, for others that promised more than they kept.
        kept, gained = np.vstack((best_counts[None, :], kept)), np.concatenate((np.array([best]), gained))
    loads = np.zeros((len(kept), len(sort.kinds)), dtype=np.int64)
    loads[:, chosen] = kept
    return Filled(min(ceiling, max(best * (1 + _MARGIN), dropped)), gained, loads)


def row_ceiling(sort: Sort, values: Floats, prices: Floats, limits: Integers | None = None) -> float:
    """What no load is worth more than, by prices of its rows alone; safe against rounding."""
    above = np.maximum(values - sort.weights @ prices, 0.0)
    most = sort.alone if limits is None else limits
    return float((sort.capacity @ prices + (most * above).sum()) * (1 + _MARGIN))


def involved(sort: Sort, values: Floats, prices: Floats, asked: float) -> Integers:
    """The kinds that loads worth more than ``asked`` have: all others lose too much against the bound by prices."""
    lost = np.maximum(sort.weights @ prices - values, 0.0)
    slack = row_ceiling(sort, values, prices) - asked
    return sort.kinds[(values > 0) & (lost <= slack * (1 + 1e-6))]


def worthwhile(
    sort: Sort, values: Floats, limits: Integers, prices: Floats, chosen: Integers, slack: float
) -> tuple[Integers, Integers]:
    """Of the chosen kinds those that a load of the best value can have, and how many of each at most.

    ``slack``: what a load may lose against the bound by prices. An item loses what its rows are worth beyond itself.
    """
    lost = np.maximum(sort.weights[chosen] @ prices - values[chosen], 0.0)
    few = np.floor(np.minimum(slack * (1 + 1e-6) / np.maximum(lost, 1e-12), 1e9)).astype(np.int64)
    keep = undominated(sort.weights[chosen], values[chosen], limits[chosen] >= sort.roomy[chosen])
    keep = keep[few[keep] > 0]
    return chosen[keep], np.minimum(limits[chosen[keep]], few[keep])


def undominated(weights: Integers, values: Floats, plenty: Flags) -> Integers:
    """Kinds in whose place no other always does as well: one of which there is plenty, no heavier, worth no less."""
    no_heavier = (weights[None, :, :] <= weights[:, None, :]).all(axis=2)
    worth = values[None, :] >= values[:, None]
    beats = no_heavier & worth & plenty[None, :]
    # Of two that beat each other the first stays.
    n = len(values)
    both = beats & beats.T
    beats &= ~both | (np.arange(n)[None, :] < np.arange(n)[:, None])
    return np.flatnonzero(~beats.any(axis=1))


def _tables(worth: Floats, limit: Integers, cells: Integers) -> list[Floats]:
    """By kind and free cells of the summed row: most that this kind and those after it can be worth there."""
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
