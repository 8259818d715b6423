"""Cutting planes: additional rows that exclude loads which fit a bin type by sums but not unit by unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from allotment.packing.bin_types import BinTypeArrays, Floats, with_row
from allotment.packing.linear import INFINITY, Program
from allotment.packing.problem import Problem
from allotment.packing.unit_weights import unit_weights

#: The minimum violation of a new row, as a fraction of its capacity.
_MIN_VIOLATION = 2e-3
#: The number of rows beyond which rows with dual price 0 are dropped.
_MAX_ROWS = 48


class CutPool:
    """The weights found so far, shared by all bin types: a cut for one often applies to another."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[int, ...]], list[tuple[dict[int, int], int]]] = {}

    def find_cut(
        self, size: int, units: int, sizes: tuple[int, ...], amounts: Mapping[int, float]
    ) -> tuple[dict[int, int], int] | None:
        """Weights under which the pieces are too heavy for the units, and the capacity of one unit; None if not found.

        ``amounts``: of pieces, by size. ``sizes``: of all pieces in such units.
        """
        known = self._known.setdefault((size, sizes), [])
        best, excess = None, 1 + _MIN_VIOLATION
        for weights, heaviest in known:
            weight = sum(weights[piece] * n for piece, n in amounts.items()) / (units * heaviest)
            if weight > excess:
                best, excess = (weights, heaviest), weight
        if best is not None:
            return best
        found = unit_weights(size, sizes, amounts)
        if not found[1] or sum(found[0][piece] * n for piece, n in amounts.items()) <= units * found[1] * (
            1 + _MIN_VIOLATION
        ):
            return None
        known.append(found)
        return found


class TightenedBinType:
    """A bin type whose rows are tightened by cuts, and its row prices for given item values."""

    def __init__(self, problem: Problem, arrays: BinTypeArrays, cuts: CutPool) -> None:
        self.arrays = arrays
        self._problem = problem
        self._cuts = cuts
        self._original_rows = len(arrays.capacity)
        self._program = _program(arrays)
        #: The amount of each kind in the last fractional filling.
        self.amounts: Floats = np.zeros(len(arrays.kinds))
        rows = problem.bin_types[arrays.number].rows
        #: By row with several units: its number, the pieces of each kind, and all piece sizes.
        self._units: list[tuple[int, list[tuple[int, ...]], tuple[int, ...]]] = []
        for number, row in enumerate(rows):
            if row.units > 1:
                pieces = [(problem.bin_types[arrays.number].needs[int(kind)] or ())[number] for kind in arrays.kinds]
                sizes = tuple(sorted({piece for each in pieces for piece in each if piece > 0}))
                if sizes:
                    self._units.append((number, pieces, sizes))

    def row_prices(self, values: Floats, rounds: int) -> Floats:
        """Prices per weight of each row: the duals of filling one bin fractionally. Adds cuts in at most ``rounds``."""
        top = float(values.max(initial=0.0))
        if top <= 0:
            return np.zeros(len(self.arrays.capacity))
        for attempt in range(rounds + 1):
            self._program.set_costs(-values / top)
            point = self._program.solve_relaxation()
            if point is None:
                return np.full(len(self.arrays.capacity), top) / np.maximum(self.arrays.capacity, 1)
            self.amounts = point.columns
            prices = np.maximum(-point.duals, 0.0) * top / np.maximum(self.arrays.capacity, 1)
            if attempt == rounds or not self.add_cuts(point.columns, prices):
                break
        return prices

    def add_cuts(self, amounts: Floats, prices: Floats) -> bool:
        """Add cuts that these amounts of each kind violate; returns whether there were any."""
        added = False
        for number, pieces, sizes in self._units:
            row = self._problem.bin_types[self.arrays.number].rows[number]
            pieces_inside: dict[int, float] = {}
            for i in np.flatnonzero(amounts > 1e-6):
                for piece in pieces[i]:
                    pieces_inside[piece] = pieces_inside.get(piece, 0.0) + float(amounts[i])
            if not pieces_inside:
                continue
            found = self._cuts.find_cut(row.size, row.units, sizes, pieces_inside)
            if found is not None:
                weights, heaviest = found
                column = np.array([sum(weights.get(piece, 0) for piece in each) for each in pieces], dtype=np.int64)
                self.arrays = with_row(self.arrays, column, row.units * heaviest)
                added = True
        if added:
            self._drop_unused_cuts(prices)
            self._program = _program(self.arrays)
        return added

    def _drop_unused_cuts(self, prices: Floats) -> None:
        """Drop added rows with price 0 if there are too many rows."""
        if len(self.arrays.capacity) <= _MAX_ROWS:
            return
        keep = np.arange(len(self.arrays.capacity)) < self._original_rows
        keep |= np.append(prices, np.ones(len(keep) - len(prices))) > 0
        places = np.cumsum(keep) - 1
        self.arrays = replace(
            self.arrays,
            weights=self.arrays.weights[:, keep],
            capacity=self.arrays.capacity[keep],
            independent_rows=places[self.arrays.independent_rows[keep[self.arrays.independent_rows]]],
        )


def _program(arrays: BinTypeArrays) -> Program:
    rows = len(arrays.capacity)
    program = Program([-INFINITY] * rows, [1.0] * rows)
    share = arrays.weights / np.maximum(arrays.capacity, 1)
    items, at = np.nonzero(share > 0)
    entries = np.bincount(items, minlength=len(arrays.kinds))
    program.add_columns(
        np.zeros(len(arrays.kinds)),
        np.cumsum(entries) - entries,
        at,
        share[items, at],
        arrays.max_items.astype(np.float64),
    )
    return program
