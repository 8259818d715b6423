"""Dual prices of items and rows from a linear program that assigns items to bin types: a quick first bound.

The program is the relaxation of Kantorovich's assignment formulation ("Mathematical methods of organizing and planning
production", 1939; Management Science 6, 1960), with equal items and equal bins added up, so that its size depends on
the number of kinds and types and not on the number of items. Items and bins may be fractional.

Sets and data:

- kinds of items ``k``, of which ``d[k]`` are to be packed;
- bin types ``s`` with price ``c[s]``; ``m[s]`` is the number of available bins, if it is limited;
- rows ``r`` of a type with capacity ``W[s,r]``, of which an item takes ``w[s,k,r]``: the original rows and their dual
  feasible weights (`dual_feasible`);
- groups ``g`` of types, of which at most ``L[g]`` bins may be used;
- a penalty ``M`` for an unpacked item, above the price of four of the most expensive bins.

Variables, all >= 0: ``u[k]``, unpacked items; ``x[k,s]``, items assigned to a type, for kinds that a bin of it can
hold; ``y[s] <= m[s]``, bins used.

Minimize ``sum_s c[s] y[s] + M sum_k u[k]``, so that

1. ``u[k] + sum_s x[k,s] >= d[k]`` for each kind: every item is assigned or unpacked;
2. ``y[s] - sum_k w[s,k,r] / W[s,r] x[k,s] >= 0`` for each type and row: enough bins for its scarcest row;
3. ``sum_{s in g} y[s] <= L[g]`` for each group.

The result is the duals. That of (1) is the value of an item, that of (2), divided by ``W[s,r]``, the price of one unit
of a row, and that of (3), negated, the surcharge on a bin of the group for its scarce limit. No load of a type is worth
more than its rows cost (`load_value_bound`), from which `dual_bound` derives a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from allotment.packing.bin_types import BinTypeArrays, Floats, Integers
from allotment.packing.knapsack import row_bound
from allotment.packing.linear import INFINITY, LinearSolution, Program
from allotment.packing.problem import Problem


@dataclass(frozen=True, slots=True)
class AssignmentPrices:
    """``items``: by kind. ``rows``: by type number, per weight of each row. ``group_prices``: of the limit by group."""

    items: Floats
    rows: Mapping[int, Floats]
    group_prices: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Constraints:
    """The numbering of the program's constraints: (1), then (2), then (3).

    ``capacities``: the numbers of (2), by type number. ``groups``: the number of (3), by group.
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


def assignment_prices(problem: Problem, counts: Sequence[int], types: Sequence[BinTypeArrays]) -> AssignmentPrices:
    """The duals of the program for ``counts`` items of each kind; all are 0 if it cannot be solved."""
    constraints = _constraints(problem, counts, types)
    program = constraints.program()
    _add(program, _variables(constraints, types))
    point = program.solve_relaxation()
    if point is None:
        return AssignmentPrices(
            np.zeros(len(counts)), {arrays.number: np.zeros(len(arrays.capacity)) for arrays in types}, {}
        )
    return _prices(constraints, types, point)


def _constraints(problem: Problem, counts: Sequence[int], types: Sequence[BinTypeArrays]) -> _Constraints:
    capacities: dict[int, range] = {}
    at = len(counts)
    for arrays in types:
        capacities[arrays.number] = range(at, at + len(arrays.capacity))
        at += len(arrays.capacity)
    limits = dict(problem.group_limits)
    groups = {group: number for number, group in enumerate(limits, at)}
    return _Constraints(counts, capacities, groups, tuple(limits.values()))


def _variables(constraints: _Constraints, types: Sequence[BinTypeArrays]) -> Iterator[_Variables]:
    yield _unassigned(len(constraints.demands), 4.0 * max((arrays.price for arrays in types), default=1) + 4.0)
    for arrays in types:
        yield _assignments(arrays, constraints)
        yield _purchases(arrays, constraints)


def _unassigned(kinds: int, penalty: float) -> _Variables:
    """``u[k]``."""
    ones = np.ones(kinds)
    return _Variables(
        np.full(kinds, penalty), np.full(kinds, INFINITY), ones.astype(np.int64), np.arange(kinds, dtype=np.int64), ones
    )


def _assignments(arrays: BinTypeArrays, constraints: _Constraints) -> _Variables:
    """``x[k,s]`` of one type: first the coefficient in (1), then those in (2)."""
    kinds = len(arrays.kinds)
    share = arrays.weights / np.maximum(arrays.capacity, 1)
    items, at = np.nonzero(share > 0)
    entries = np.bincount(items, minlength=kinds) + 1
    rows = np.zeros(int(entries.sum()), dtype=np.int64)
    coefficients = np.ones(len(rows))
    demands = np.cumsum(entries) - entries
    rows[demands] = arrays.kinds
    of_capacity = np.ones(len(rows), dtype=bool)
    of_capacity[demands] = False
    rows[of_capacity] = constraints.capacities[arrays.number].start + at
    coefficients[of_capacity] = -share[items, at]
    return _Variables(np.zeros(kinds), np.full(kinds, INFINITY), entries, rows, coefficients)


def _purchases(arrays: BinTypeArrays, constraints: _Constraints) -> _Variables:
    """``y[s]`` of one type."""
    groups = [constraints.groups[group] for group in arrays.groups if group in constraints.groups]
    rows = np.array([*constraints.capacities[arrays.number], *groups], dtype=np.int64)
    max_count = INFINITY if arrays.max_count is None else float(arrays.max_count)
    return _Variables(
        np.array([float(arrays.price)]), np.array([max_count]), np.array([len(rows)]), rows, np.ones(len(rows))
    )  # fmt: skip


def _add(program: Program, variables: Iterable[_Variables]) -> None:
    cost, upper, entries, constraints, coefficients = map(np.concatenate, zip(*variables, strict=True))
    program.add_columns(cost, np.cumsum(entries) - entries, constraints, coefficients, upper)


def _prices(constraints: _Constraints, types: Sequence[BinTypeArrays], point: LinearSolution) -> AssignmentPrices:
    duals = point.duals
    rows: dict[int, Floats] = {}
    for arrays in types:
        own = constraints.capacities[arrays.number]
        rows[arrays.number] = np.maximum(duals[own.start : own.stop], 0.0) / np.maximum(arrays.capacity, 1)
    group_prices = {group: max(0.0, -float(duals[number])) for group, number in constraints.groups.items()}
    return AssignmentPrices(np.maximum(duals[: len(constraints.demands)], 0.0), rows, group_prices)


def load_value_bound(arrays: BinTypeArrays, values: Floats, prices: Floats) -> float:
    """An upper bound on the value of a load by the row prices alone, with a margin for rounding."""
    return row_bound(arrays, values[arrays.kinds], prices)
