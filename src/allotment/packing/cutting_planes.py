"""Rows that refuse what fits a sort by its sums but not unit by unit, found where they are missed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from allotment.packing.bin_types import Floats, Sort, with_row
from allotment.packing.linear import INFINITY, Program
from allotment.packing.problem import Problem
from allotment.packing.unit_weights import unit_weights

#: By how much a row must be missed, as a fraction of what it bears.
_MISSED = 2e-3
#: Rows beyond which those that do not count at the moment are dropped.
_ROWS = 48


class Weighings:
    """Weights found so far, as what one sort misses another misses too."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[int, ...]], list[tuple[dict[int, int], int]]] = {}

    def heavy(
        self, size: int, units: int, sizes: tuple[int, ...], crowd: Mapping[int, float]
    ) -> tuple[dict[int, int], int] | None:
        """Weights by which the crowd is too heavy for so many units, and what one unit bears; None if there are none.

        ``sizes``: of all pieces there are for such units.
        """
        known = self._known.setdefault((size, sizes), [])
        best, excess = None, 1 + _MISSED
        for weights, heaviest in known:
            weight = sum(weights[piece] * n for piece, n in crowd.items()) / (units * heaviest)
            if weight > excess:
                best, excess = (weights, heaviest), weight
        if best is not None:
            return best
        found = unit_weights(size, sizes, crowd)
        if not found[1] or sum(found[0][piece] * n for piece, n in crowd.items()) <= units * found[1] * (1 + _MISSED):
            return None
        known.append(found)
        return found


class Sharpened:
    """A sort that gets more rows as they are missed, and what its rows are worth when items have values."""

    def __init__(self, problem: Problem, sort: Sort, weighings: Weighings) -> None:
        self.sort = sort
        self._problem = problem
        self._weighings = weighings
        self._first = len(sort.capacity)
        self._program = _program(sort)
        #: What the last filling with parts of items was.
        self.amounts: Floats = np.zeros(len(sort.kinds))
        rows = problem.bin_types[sort.number].rows
        #: By row of units: the pieces of each kind, and all sizes there are.
        self._units: list[tuple[int, list[tuple[int, ...]], tuple[int, ...]]] = []
        for number, row in enumerate(rows):
            if row.units > 1:
                pieces = [(problem.bin_types[sort.number].needs[int(kind)] or ())[number] for kind in sort.kinds]
                sizes = tuple(sorted({piece for each in pieces for piece in each if piece > 0}))
                if sizes:
                    self._units.append((number, pieces, sizes))

    def prices(self, values: Floats, rounds: int) -> Floats:
        """Per weight of each row: duals of filling one bin with parts of items. Adds rows, at most so often."""
        top = float(values.max(initial=0.0))
        if top <= 0:
            return np.zeros(len(self.sort.capacity))
        for attempt in range(rounds + 1):
            self._program.price(-values / top)
            point = self._program.relaxed()
            if point is None:
                return np.full(len(self.sort.capacity), top) / np.maximum(self.sort.capacity, 1)
            self.amounts = point.columns
            prices = np.maximum(-point.duals, 0.0) * top / np.maximum(self.sort.capacity, 1)
            if attempt == rounds or not self.sharpen(point.columns, prices):
                break
        return prices

    def sharpen(self, amounts: Floats, prices: Floats) -> bool:
        """Add rows that these amounts of each kind miss; whether there were any."""
        more = False
        for number, pieces, sizes in self._units:
            row = self._problem.bin_types[self.sort.number].rows[number]
            crowd: dict[int, float] = {}
            for i in np.flatnonzero(amounts > 1e-6):
                for piece in pieces[i]:
                    crowd[piece] = crowd.get(piece, 0.0) + float(amounts[i])
            if not crowd:
                continue
            found = self._weighings.heavy(row.size, row.units, sizes, crowd)
            if found is not None:
                weights, heaviest = found
                column = np.array([sum(weights.get(piece, 0) for piece in each) for each in pieces], dtype=np.int64)
                self.sort = with_row(self.sort, column, row.units * heaviest)
                more = True
        if more:
            self._forget(prices)
            self._program = _program(self.sort)
        return more

    def _forget(self, prices: Floats) -> None:
        """Rows that were added and bear no price, if there are too many."""
        if len(self.sort.capacity) <= _ROWS:
            return
        keep = np.arange(len(self.sort.capacity)) < self._first
        keep |= np.append(prices, np.ones(len(keep) - len(prices))) > 0
        places = np.cumsum(keep) - 1
        self.sort = replace(
            self.sort,
            weights=self.sort.weights[:, keep],
            capacity=self.sort.capacity[keep],
            needed=places[self.sort.needed[keep[self.sort.needed]]],
        )


def _program(sort: Sort) -> Program:
    rows = len(sort.capacity)
    program = Program([-INFINITY] * rows, [1.0] * rows)
    share = sort.weights / np.maximum(sort.capacity, 1)
    items, at = np.nonzero(share > 0)
    entries = np.bincount(items, minlength=len(sort.kinds))
    program.add(
        np.zeros(len(sort.kinds)), np.cumsum(entries) - entries, at, share[items, at], sort.alone.astype(np.float64)
    )
    return program
