"""Prices of items and of what bins have, from a linear program that assigns items to bin types: quick, a first bound.

The program is the relaxation of Kantorovich's assignment formulation ("Mathematical methods of organizing and planning
production", 1939; Management Science 6, 1960), with equal items and equal bins added up, so that its size depends on
how many kinds and types there are and not on how many items. Items may be cut and bins bought in parts.

Sets and data:

- kinds of items ``k``, of which ``d[k]`` are to be packed;
- bin types ``s`` with price ``c[s]``; ``m[s]`` is how many there are, if not any number;
- rows ``r`` of a type with capacity ``W[s,r]``, of which an item takes ``w[s,k,r]``: what bins have, and dual feasible
  weights of it (`dual_feasible`);
- groups ``g`` of types, of which at most ``L[g]`` bins may be bought;
- a penalty ``M`` for an item without a place, above the price of four of the dearest bins.

Variables, none of them negative: ``u[k]``, items without a place; ``x[k,s]``, items assigned to a type, for kinds that
a bin of it can hold; ``y[s] <= m[s]``, bins bought.

Minimise ``sum_s c[s] y[s] + M sum_k u[k]``, so that

1. ``u[k] + sum_s x[k,s] >= d[k]`` for each kind: every item is assigned or left;
2. ``y[s] - sum_k w[s,k,r] / W[s,r] x[k,s] >= 0`` for each type and row: bins are bought as its scarcest row requires;
3. ``sum_{s in g} y[s] <= L[g]`` for each group.

Wanted are the duals. That of (1) is what an item is worth, that of (2), divided by ``W[s,r]``, the price of one unit of
a row, and that of (3), negated, what a bin of the group costs on top because the limit is scarce. No load of a type is
worth more than its rows cost (`ceiling`), from which `proof` makes a bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from allotment.packing.bin_types import Floats, Integers, Sort
from allotment.packing.knapsack import row_ceiling
from allotment.packing.linear import INFINITY, Point, Program
from allotment.packing.problem import Problem


@dataclass(frozen=True, slots=True)
class Prices:
    """``items``: by kind. ``rows``: by bin number, per weight of each row of the sort. ``tolls``: by group."""

    items: Floats
    rows: Mapping[int, Floats]
    tolls: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Constraints:
    """Which constraints of the program are whose, by number: (1), then (2), then (3).

    ``capacities``: the numbers of (2), by bin number. ``groups``: the number of (3), by group.
    """

    demands: Sequence[int]
    capacities: Mapping[int, range]
    groups: Mapping[str, int]
    limits: Sequence[int]
    """Right-hand sides of (3)."""

    def program(self) -> Program:
        """The program without variables."""
        free = sum(map(len, self.capacities.values()))
        lower = [*map(float, self.demands), *[0.0] * free, *[-INFINITY] * len(self.limits)]
        upper = [*[INFINITY] * (len(self.demands) + free), *map(float, self.limits)]
        return Program(lower, upper)


class _Variables(NamedTuple):
    """Variables of the program, each with its coefficients in some of the constraints.

    ``cost``, ``upper`` (bound) and ``entries`` (how many coefficients) are by variable. ``coefficients`` and the
    numbers of their ``constraints`` are those of all variables, one after the other.
    """

    cost: Floats
    upper: Floats
    entries: Integers
    constraints: Integers
    coefficients: Floats


def assigned(problem: Problem, counts: Sequence[int], sorts: Sequence[Sort]) -> Prices:
    """The duals of the program for ``counts`` items of each kind; all are 0 if it cannot be solved."""
    constraints = _constraints(problem, counts, sorts)
    program = constraints.program()
    _add(program, _variables(constraints, sorts))
    point = program.relaxed()
    if point is None:
        return Prices(np.zeros(len(counts)), {sort.number: np.zeros(len(sort.capacity)) for sort in sorts}, {})
    return _prices(constraints, sorts, point)


def _constraints(problem: Problem, counts: Sequence[int], sorts: Sequence[Sort]) -> _Constraints:
    capacities: dict[int, range] = {}
    at = len(counts)
    for sort in sorts:
        capacities[sort.number] = range(at, at + len(sort.capacity))
        at += len(sort.capacity)
    limits = dict(problem.group_limits)
    groups = {group: number for number, group in enumerate(limits, at)}
    return _Constraints(counts, capacities, groups, tuple(limits.values()))


def _variables(constraints: _Constraints, sorts: Sequence[Sort]) -> Iterator[_Variables]:
    yield _unassigned(len(constraints.demands), 4.0 * max((sort.price for sort in sorts), default=1) + 4.0)
    for sort in sorts:
        yield _assignments(sort, constraints)
        yield _purchases(sort, constraints)


def _unassigned(kinds: int, penalty: float) -> _Variables:
    """``u[k]``."""
    one = np.ones(kinds)
    return _Variables(
        np.full(kinds, penalty), np.full(kinds, INFINITY), one.astype(np.int64), np.arange(kinds, dtype=np.int64), one
    )


def _assignments(sort: Sort, constraints: _Constraints) -> _Variables:
    """``x[k,s]`` of one type: first the coefficient in (1), then those in (2)."""
    kinds = len(sort.kinds)
    share = sort.weights / np.maximum(sort.capacity, 1)
    items, at = np.nonzero(share > 0)
    entries = np.bincount(items, minlength=kinds) + 1
    rows = np.zeros(int(entries.sum()), dtype=np.int64)
    coefficients = np.ones(len(rows))
    demands = np.cumsum(entries) - entries
    rows[demands] = sort.kinds
    of_capacity = np.ones(len(rows), dtype=bool)
    of_capacity[demands] = False
    rows[of_capacity] = constraints.capacities[sort.number].start + at
    coefficients[of_capacity] = -share[items, at]
    return _Variables(np.zeros(kinds), np.full(kinds, INFINITY), entries, rows, coefficients)


def _purchases(sort: Sort, constraints: _Constraints) -> _Variables:
    """``y[s]`` of one type."""
    groups = [constraints.groups[group] for group in sort.groups if group in constraints.groups]
    rows = np.array([*constraints.capacities[sort.number], *groups], dtype=np.int64)
    most = INFINITY if sort.most is None else float(sort.most)
    return _Variables(
        np.array([float(sort.price)]), np.array([most]), np.array([len(rows)]), rows, np.ones(len(rows))
    )  # fmt: skip


def _add(program: Program, variables: Iterable[_Variables]) -> None:
    cost, upper, entries, constraints, coefficients = map(np.concatenate, zip(*variables, strict=True))
    program.add(cost, np.cumsum(entries) - entries, constraints, coefficients, upper)


def _prices(constraints: _Constraints, sorts: Sequence[Sort], point: Point) -> Prices:
    duals = point.duals
    rows: dict[int, Floats] = {}
    for sort in sorts:
        own = constraints.capacities[sort.number]
        rows[sort.number] = np.maximum(duals[own.start : own.stop], 0.0) / np.maximum(sort.capacity, 1)
    tolls = {group: max(0.0, -float(duals[number])) for group, number in constraints.groups.items()}
    return Prices(np.maximum(duals[: len(constraints.demands)], 0.0), rows, tolls)


def ceiling(sort: Sort, values: Floats, prices: Floats) -> float:
    """What no load of the sort is worth more than, by prices of its rows alone; safe against rounding."""
    return row_ceiling(sort, values[sort.kinds], prices)
