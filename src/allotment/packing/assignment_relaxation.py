"""Prices on items and on what bins have, as if items could be cut and bins bought in parts: quick, a first bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from allotment.packing.bin_types import Floats, Sort
from allotment.packing.knapsack import row_ceiling
from allotment.packing.linear import INFINITY, Program
from allotment.packing.problem import Problem


@dataclass(frozen=True, slots=True)
class Prices:
    """``items``: by kind. ``rows``: by bin number, per weight of each row of the sort. ``tolls``: by group."""

    items: Floats
    rows: Mapping[int, Floats]
    tolls: Mapping[str, float]


def assigned(problem: Problem, counts: Sequence[int], sorts: Sequence[Sort]) -> Prices:
    """The duals of: items are spread over sorts, each sort is bought as often as its scarcest row asks."""
    kinds = len(counts)
    dear = 4.0 * max((sort.price for sort in sorts), default=1) + 4.0
    limits = dict(problem.group_limits)
    lower = [float(count) for count in counts]
    first = {sort.number: kinds + sum(len(s.capacity) for s in sorts[:i]) for i, sort in enumerate(sorts)}
    rows = kinds + sum(len(sort.capacity) for sort in sorts)
    lower += [0.0] * (rows - kinds)
    upper = [INFINITY] * rows
    group_row = {group: rows + i for i, group in enumerate(limits)}
    lower += [-INFINITY] * len(limits)
    upper += [float(limit) for limit in limits.values()]
    program = Program(lower, upper)
    costs: list[Floats] = [np.full(kinds, dear)]
    lengths: list[Floats] = [np.ones(kinds)]
    where: list[Floats] = [np.arange(kinds, dtype=np.float64)]
    what: list[Floats] = [np.ones(kinds)]
    tops: list[Floats] = [np.full(kinds, INFINITY)]
    for sort in sorts:
        share = sort.weights / np.maximum(sort.capacity, 1)
        begin = first[sort.number]
        items, at = np.nonzero(share > 0)
        entries = np.bincount(items, minlength=len(sort.kinds)) + 1
        ends = np.cumsum(entries)
        line = np.zeros(int(entries.sum()))
        value = np.ones(len(line))
        heads = ends - entries
        line[heads] = sort.kinds
        rest = np.ones(len(line), dtype=bool)
        rest[heads] = False
        line[rest] = begin + at
        value[rest] = -share[items, at]
        costs.append(np.zeros(len(sort.kinds)))
        lengths.append(entries.astype(np.float64))
        where.append(line)
        what.append(value)
        tops.append(np.full(len(sort.kinds), INFINITY))
        groups = [group_row[group] for group in sort.groups if group in group_row]
        costs.append(np.array([float(sort.price)]))
        lengths.append(np.array([float(len(sort.capacity) + len(groups))]))
        where.append(np.array([*range(begin, begin + len(sort.capacity)), *groups], dtype=np.float64))
        what.append(np.ones(len(sort.capacity) + len(groups)))
        tops.append(np.array([INFINITY if sort.most is None else float(sort.most)]))
    length = np.concatenate(lengths).astype(np.int64)
    program.add(
        np.concatenate(costs), np.cumsum(length) - length, np.concatenate(where).astype(np.int64),
        np.concatenate(what), np.concatenate(tops),
    )  # fmt: skip
    point = program.relaxed()
    if point is None:
        return Prices(np.zeros(kinds), {sort.number: np.zeros(len(sort.capacity)) for sort in sorts}, {})
    duals = point.duals
    return Prices(
        np.maximum(duals[:kinds], 0.0),
        {
            sort.number: np.maximum(duals[first[sort.number] :][: len(sort.capacity)], 0.0)
            / np.maximum(sort.capacity, 1)
            for sort in sorts
        },
        {group: max(0.0, -float(duals[row])) for group, row in group_row.items()},
    )


def ceiling(sort: Sort, values: Floats, prices: Floats) -> float:
    """What no load of the sort is worth more than, by prices of its rows alone; safe against rounding."""
    return row_ceiling(sort, values[sort.kinds], prices)
