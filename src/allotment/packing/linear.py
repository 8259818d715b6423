"""Linear and integer programs solved by HiGHS, with one thread and counted steps so that results are reproducible.

The only module that imports highspy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from allotment.packing.bin_types import Floats, Integers

INFINITY = float(highspy.kHighsInf)
_FEASIBLE = 2


@dataclass(frozen=True, slots=True)
class LinearSolution:
    """A solution. ``duals``: of the rows, for a minimization: ``>=`` rows have a dual ≥ 0."""

    value: float
    columns: Floats
    duals: Floats


@dataclass(frozen=True, slots=True)
class IntegerSolution:
    """An integer solution. ``columns``: None if none was found. ``bound``: on the cost, up to rounding; infinite if the
    program is infeasible."""

    columns: Floats | None
    bound: float


class _SilentHighs(highspy.Highs):
    """HiGHS that writes nothing to standard output.

    Its constructor ends with `enableCallbacks`, which since 1.16 prints a banner unless output is off by then.
    """

    def enableCallbacks(self) -> None:  # noqa: N802 - overrides a method of HiGHS
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()


class Program:
    """Minimize ``cost · x`` with rows between bounds. Rows are fixed at construction, columns are added later."""

    def __init__(self, lower: Sequence[float], upper: Sequence[float], *, exact: bool = False) -> None:
        self._highs: Any = _SilentHighs()
        for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 0), ("parallel", "off")):
            self._highs.setOptionValue(option, value)
        if exact:
            for option in ("primal_feasibility_tolerance", "dual_feasibility_tolerance", "mip_feasibility_tolerance"):
                self._highs.setOptionValue(option, 1e-9)
        none = np.zeros(0)
        for low, high in zip(lower, upper, strict=True):
            self._highs.addRow(low, high, 0, none.astype(np.int32), none)
        self.columns = 0

    def add_columns(
        self, cost: Floats, starts: Integers, rows: Integers, values: Floats, upper: Floats | None = None
    ) -> None:
        """Add columns with bounds 0 and ``upper`` (None: unbounded); column i's entries start at ``starts[i]``."""
        n = len(cost)
        high = np.full(n, INFINITY) if upper is None else upper
        self._highs.addCols(
            n, cost, np.zeros(n), high, len(rows), starts.astype(np.int32), rows.astype(np.int32), values
        )
        self.columns += n

    def set_upper_bounds(self, columns: Integers, upper: float) -> None:
        """Set the upper bound of these columns."""
        n = len(columns)
        self._highs.changeColsBounds(n, columns.astype(np.int32), np.zeros(n), np.full(n, upper))

    def set_costs(self, cost: Floats) -> None:
        """Set the costs of all columns."""
        self._highs.changeColsCost(self.columns, np.arange(self.columns, dtype=np.int32), cost)

    def solve_relaxation(self) -> LinearSolution | None:
        """The optimum over real variables, or None if there is none."""
        self._highs.run()
        if self._highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = self._highs.getSolution()
        return LinearSolution(
            self._highs.getInfo().objective_function_value,
            np.array(solution.col_value, dtype=np.float64),
            np.array(solution.row_dual, dtype=np.float64),
        )

    def solve_integer(
        self, *, nodes: int, gap: float, start: Floats | None = None, keep_going: Callable[[], bool] | None = None
    ) -> IntegerSolution:
        """The best integer solution found within ``nodes`` branch-and-bound nodes or until ``keep_going`` returns
        False.

        Afterwards the columns are real variables again.
        """
        numbers = np.arange(self.columns, dtype=np.int32)
        kind = np.full(self.columns, highspy.HighsVarType.kInteger)
        self._highs.changeColsIntegrality(self.columns, numbers, kind)
        self._highs.setOptionValue("mip_max_nodes", nodes)
        self._highs.setOptionValue("mip_rel_gap", gap)
        if start is not None:
            initial = highspy.HighsSolution()
            initial.col_value = list(start)
            self._highs.setSolution(initial)
        if keep_going is not None:

            def interrupt(event: Any) -> None:
                if not keep_going():
                    event.interrupt()

            self._highs.cbMipInterrupt += interrupt
        self._highs.run()
        if keep_going is not None:
            self._highs.cbMipInterrupt -= interrupt
        info = self._highs.getInfo()
        columns = None
        if info.primal_solution_status == _FEASIBLE:
            columns = np.rint(np.array(self._highs.getSolution().col_value, dtype=np.float64))
        status = self._highs.getModelStatus()
        bound = INFINITY if status == highspy.HighsModelStatus.kInfeasible else float(info.mip_dual_bound)
        kind[:] = highspy.HighsVarType.kContinuous
        self._highs.changeColsIntegrality(self.columns, numbers, kind)
        return IntegerSolution(columns, bound)
