"""How often each load that is known is bought: a linear program for prices, an integer one for answers.

Gilmore and Gomory, "A linear programming approach to the cutting-stock problem" (1961). Rows: items by kind, sorts of
which there are few, groups with a limit, and the budget. What limits leave without a place is dearer than any bin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from allotment.packing.bin_types import Floats
from allotment.packing.linear import INFINITY, Program
from allotment.packing.problem import Load, Problem

#: How many of the dearest bins an item without a place counts as.
_DEAR = 50.0


@dataclass(frozen=True, slots=True)
class Duals:
    """``items``: by kind. ``most``: by bin number, what one more of a scarce sort would save. ``tolls``: by group.

    ``times``: how often each load is bought, in parts, in the order of ``Master.loads``. ``exchanged``: how
    often each pair is. ``tax``: what the budget adds to prices, as a factor (1 if there is enough).
    """

    cost: float
    times: Floats
    exchanged: Floats
    items: Floats
    most: Mapping[int, float]
    tolls: Mapping[str, float]
    tax: float

    def asked(self, problem: Problem, number: int) -> float:
        """What a load of this bin must be worth more than, to be of use."""
        bin = problem.bin_types[number]
        tolls = sum(self.tolls.get(group, 0.0) for group in bin.groups)
        return bin.price * self.tax + self.most.get(number, 0.0) + tolls


class Master:
    """Loads that are known, and the programs over them."""

    def __init__(self, problem: Problem, counts: Sequence[int], pairs: Sequence[tuple[int, int]] = ()) -> None:
        self.problem = problem
        self.loads: list[tuple[int, Load]] = []
        self._known: set[tuple[int, Load]] = set()
        self.counts = list(counts)
        kinds = len(counts)
        self._scarce = [number for number, bin in enumerate(problem.bin_types) if bin.max_count is not None]
        self._groups = [group for group, _ in problem.group_limits]
        self._scarce_row = {number: kinds + i for i, number in enumerate(self._scarce)}
        self._group_row = {group: kinds + len(self._scarce) + i for i, group in enumerate(self._groups)}
        self._budget_row = kinds + len(self._scarce) + len(self._groups) if problem.budget is not None else None
        top = max((bin.price for bin in problem.bin_types), default=0)
        #: Prices within the program are about one.
        self._unit = max(top, 1) / 100
        upper = [INFINITY] * kinds
        upper += [float(problem.bin_types[number].max_count or 0) for number in self._scarce]
        upper += [float(limit) for _, limit in problem.group_limits]
        lower = [float(count) for count in counts] + [-INFINITY] * (len(upper) - kinds)
        if problem.budget is not None:
            lower.append(-INFINITY)
            upper.append(problem.budget / self._unit)
        self._program = Program(lower, upper)
        one = np.ones(kinds)
        places = np.arange(kinds, dtype=np.int64)
        self._program.add(one * 100 * _DEAR, places, places, one)
        n = len(pairs)
        self.pairs = list(pairs)
        if n:
            # A place for the bigger kind serves the smaller one.
            ends = np.array(pairs, dtype=np.int64).ravel()
            self._program.add(np.zeros(n), 2 * np.arange(n), ends, np.tile([1.0, -1.0], n))
        self._before = kinds + n

    def add(self, loads: Iterable[tuple[int, Load]]) -> int:
        """Make loads known; how many were new."""
        new = [load for load in dict.fromkeys(loads) if load not in self._known and load[1]]
        if not new:
            return 0
        cost: list[float] = []
        starts: list[int] = []
        rows: list[int] = []
        values: list[float] = []
        for number, load in new:
            bin = self.problem.bin_types[number]
            starts.append(len(rows))
            cost.append(bin.price / self._unit)
            for kind, n in load:
                rows.append(kind)
                values.append(float(n))
            self._limits(number, rows, values)
        self._program.add(
            np.array(cost), np.array(starts, dtype=np.int64), np.array(rows, dtype=np.int64), np.array(values)
        )
        self.loads += new
        self._known.update(new)
        return len(new)

    def _limits(self, number: int, rows: list[int], values: list[float]) -> None:
        """What one bin takes of the limits."""
        bin = self.problem.bin_types[number]
        if number in self._scarce_row:
            rows.append(self._scarce_row[number])
            values.append(1.0)
        for group in bin.groups:
            if group in self._group_row:
                rows.append(self._group_row[group])
                values.append(1.0)
        if self._budget_row is not None and bin.price:
            rows.append(self._budget_row)
            values.append(bin.price / self._unit)

    def exchanging(self, allowed: bool) -> None:
        """Whether a place for a kind may serve a smaller one: good for prices; an answer needs each its own."""
        self._program.limit(np.arange(len(self.counts), self._before, dtype=np.int64), INFINITY if allowed else 0.0)

    def duals(self) -> Duals | None:
        """Prices under which no known load is worth more than it costs; None if the program cannot be solved."""
        point = self._program.relaxed()
        if point is None:
            return None
        dual = point.duals
        tax = 1.0 if self._budget_row is None else 1.0 + max(0.0, -float(dual[self._budget_row]))
        return Duals(
            point.value * self._unit,
            point.columns[self._before :],
            point.columns[len(self.counts) : self._before],
            np.maximum(dual[: len(self.counts)], 0.0) * self._unit,
            {number: max(0.0, -float(dual[row])) * self._unit for number, row in self._scarce_row.items()},
            {group: max(0.0, -float(dual[row])) * self._unit for group, row in self._group_row.items()},
            tax,
        )

    def whole(
        self, start: Mapping[tuple[int, Load], int], *, nodes: int, keep_going: Callable[[], bool] | None = None
    ) -> dict[tuple[int, Load], int] | None:
        """The best choice of known loads found from ``start`` on; it may hold more items than there are."""
        point = np.zeros(self._before + len(self.loads))
        left = np.array(self.counts, dtype=np.float64)
        for at, load in enumerate(self.loads):
            n = start.get(load, 0)
            point[self._before + at] = n
            for kind, many in load[1]:
                left[kind] -= many * n
        point[: len(left)] = np.maximum(left, 0.0)
        found = self._program.whole(nodes=nodes, gap=1e-5, start=point, keep_going=keep_going).columns
        if found is None:
            return None
        return {
            load: int(found[self._before + at]) for at, load in enumerate(self.loads) if found[self._before + at] > 0
        }
