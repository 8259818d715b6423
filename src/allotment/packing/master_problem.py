"""The master problem of column generation: how often each known load is used, as a linear and as an integer program.

Gilmore and Gomory, "A linear programming approach to the cutting-stock problem" (1961). Rows: items by kind, bin types
with a maximum count, groups with a limit, and the budget. An unpacked item costs more than any bin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from allotment.packing.bin_types import Floats
from allotment.packing.linear import INFINITY, Program
from allotment.packing.problem import Load, Problem

#: The cost of an unpacked item, as a multiple of the most expensive bin's price.
_UNPACKED_PRICE = 50.0


@dataclass(frozen=True, slots=True)
class MasterDuals:
    """Dual prices and the fractional solution of the master problem.

    ``usage``: how often each load is used, in the order of ``MasterProblem.loads``; ``exchange_usage``: of each pair.
    ``items``: dual price by kind. ``count_prices``: of the maximum count, by type number. ``group_prices``: of the
    limit, by group. ``budget_factor``: by which the budget raises prices; 1 if it is not binding.
    """

    cost: float
    usage: Floats
    exchange_usage: Floats
    items: Floats
    count_prices: Mapping[int, float]
    group_prices: Mapping[str, float]
    budget_factor: float

    def value_threshold(self, problem: Problem, number: int) -> float:
        """The value that a load of this bin type must exceed to have a negative reduced cost."""
        bin_type = problem.bin_types[number]
        groups = sum(self.group_prices.get(group, 0.0) for group in bin_type.groups)
        return bin_type.price * self.budget_factor + self.count_prices.get(number, 0.0) + groups


class MasterProblem:
    """The known loads and the program over them. ``pairs``: see `exchanges`."""

    def __init__(self, problem: Problem, counts: Sequence[int], pairs: Sequence[tuple[int, int]] = ()) -> None:
        self.problem = problem
        self.loads: list[tuple[int, Load]] = []
        self._known: set[tuple[int, Load]] = set()
        self.counts = list(counts)
        kinds = len(counts)
        self._limited = [number for number, bin_type in enumerate(problem.bin_types) if bin_type.max_count is not None]
        self._groups = [group for group, _ in problem.group_limits]
        self._limited_row = {number: kinds + i for i, number in enumerate(self._limited)}
        self._group_row = {group: kinds + len(self._limited) + i for i, group in enumerate(self._groups)}
        self._budget_row = kinds + len(self._limited) + len(self._groups) if problem.budget is not None else None
        top = max((bin_type.price for bin_type in problem.bin_types), default=0)
        #: Scales prices in the program to at most 100.
        self._unit = max(top, 1) / 100
        upper = [INFINITY] * kinds
        upper += [float(problem.bin_types[number].max_count or 0) for number in self._limited]
        upper += [float(limit) for _, limit in problem.group_limits]
        lower = [float(count) for count in counts] + [-INFINITY] * (len(upper) - kinds)
        if problem.budget is not None:
            lower.append(-INFINITY)
            upper.append(problem.budget / self._unit)
        self._program = Program(lower, upper)
        ones = np.ones(kinds)
        places = np.arange(kinds, dtype=np.int64)
        self._program.add_columns(ones * 100 * _UNPACKED_PRICE, places, places, ones)
        n = len(pairs)
        self.pairs = list(pairs)
        if n:
            # An item of the smaller kind can use capacity for the bigger kind.
            ends = np.array(pairs, dtype=np.int64).ravel()
            self._program.add_columns(np.zeros(n), 2 * np.arange(n), ends, np.tile([1.0, -1.0], n))
        self._before = kinds + n

    def add(self, loads: Iterable[tuple[int, Load]]) -> int:
        """Add loads as columns; returns how many are new."""
        new = [load for load in dict.fromkeys(loads) if load not in self._known and load[1]]
        if not new:
            return 0
        cost: list[float] = []
        starts: list[int] = []
        rows: list[int] = []
        values: list[float] = []
        for number, load in new:
            bin_type = self.problem.bin_types[number]
            starts.append(len(rows))
            cost.append(bin_type.price / self._unit)
            for kind, n in load:
                rows.append(kind)
                values.append(float(n))
            self._add_limits(number, rows, values)
        self._program.add_columns(
            np.array(cost), np.array(starts, dtype=np.int64), np.array(rows, dtype=np.int64), np.array(values)
        )
        self.loads += new
        self._known.update(new)
        return len(new)

    def _add_limits(self, number: int, rows: list[int], values: list[float]) -> None:
        """Append one bin's entries in the rows of its limits."""
        bin_type = self.problem.bin_types[number]
        if number in self._limited_row:
            rows.append(self._limited_row[number])
            values.append(1.0)
        for group in bin_type.groups:
            if group in self._group_row:
                rows.append(self._group_row[group])
                values.append(1.0)
        if self._budget_row is not None and bin_type.price:
            rows.append(self._budget_row)
            values.append(bin_type.price / self._unit)

    def allow_exchanges(self, allowed: bool) -> None:
        """Allow smaller kinds to use capacity for bigger ones: better for prices, but not valid in a solution."""
        self._program.set_upper_bounds(
            np.arange(len(self.counts), self._before, dtype=np.int64), INFINITY if allowed else 0.0
        )

    def duals(self) -> MasterDuals | None:
        """The duals, under which no known load is worth more than it costs; None if the program cannot be solved."""
        point = self._program.solve_relaxation()
        if point is None:
            return None
        dual = point.duals
        tax = 1.0 if self._budget_row is None else 1.0 + max(0.0, -float(dual[self._budget_row]))
        return MasterDuals(
            point.value * self._unit,
            point.columns[self._before :],
            point.columns[len(self.counts) : self._before],
            np.maximum(dual[: len(self.counts)], 0.0) * self._unit,
            {number: max(0.0, -float(dual[row])) * self._unit for number, row in self._limited_row.items()},
            {group: max(0.0, -float(dual[row])) * self._unit for group, row in self._group_row.items()},
            tax,
        )

    def solve_integer(
        self, start: Mapping[tuple[int, Load], int], *, nodes: int, keep_going: Callable[[], bool] | None = None
    ) -> dict[tuple[int, Load], int] | None:
        """The best choice of known loads found, starting from ``start``. It may hold more items than there are."""
        point = np.zeros(self._before + len(self.loads))
        left = np.array(self.counts, dtype=np.float64)
        for at, load in enumerate(self.loads):
            n = start.get(load, 0)
            point[self._before + at] = n
            for kind, items in load[1]:
                left[kind] -= items * n
        point[: len(left)] = np.maximum(left, 0.0)
        found = self._program.solve_integer(nodes=nodes, gap=1e-5, start=point, keep_going=keep_going).columns
        if found is None:
            return None
        return {
            load: int(found[self._before + at]) for at, load in enumerate(self.loads) if found[self._before + at] > 0
        }
