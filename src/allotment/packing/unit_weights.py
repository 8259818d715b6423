"""Optimal dual feasible weights for given pieces: no set of pieces that fits one unit weighs more than the unit.

`dual_feasible` has closed-form weights. These are computed: the pieces are packed into a fractional number of units
(Gilmore and Gomory), and the weight of a piece is its dual price, the cost of one more piece. By these weights, pieces
that do not fit are nearly always too heavy.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

import numpy as np

from allotment.packing.bin_types import Integers
from allotment.packing.linear import INFINITY, Program

#: The scale of the integer weights: about the capacity of one unit.
_ONE = 1 << 20
#: The maximum number of cells of a unit. Sizes are rounded down to cells, which can only weaken the weights.
_CELLS = 2000
#: The maximum number of generated sets of pieces.
_ROUNDS = 60
#: The minimum amount of every size, so that each gets a weight.
_MIN_AMOUNT = 1e-3


def unit_weights(size: int, sizes: tuple[int, ...], amounts: Mapping[int, float]) -> tuple[dict[int, int], int]:
    """The weights by piece size, and the weight of the heaviest set of pieces that fits one unit.

    ``sizes``: all that occur, each at most ``size``. ``amounts``: the number of pieces of some of them.
    """
    step = gcd(size, *sizes)
    if size // step > _CELLS:
        step = -(-size // _CELLS)
    room = size // step
    cells = [piece // step for piece in sizes]
    demand = [max(amounts.get(piece, 0.0), _MIN_AMOUNT) for piece in sizes]
    program = Program(demand, [INFINITY] * len(sizes))
    ones = np.ones(1)
    first = np.zeros(1, dtype=np.int64)
    for i, cell in enumerate(cells):
        fit = room // cell if cell else 1000
        program.add_columns(ones, first, np.array([i], dtype=np.int64), np.array([float(fit)]))
    weights = np.zeros(len(sizes), dtype=np.int64)
    for _ in range(_ROUNDS):
        point = program.solve_relaxation()
        if point is None:
            break
        weights = np.floor(np.maximum(point.duals, 0.0) * _ONE).astype(np.int64)
        # Any number of pieces with 0 cells would fit.
        weights[np.array(cells) == 0] = 0
        heaviest, counts = _heaviest(room, cells, weights)
        if heaviest <= _ONE * 1.001:
            break
        rows = np.flatnonzero(counts)
        program.add_columns(ones, first, rows, counts[rows].astype(np.float64))
    heaviest, _ = _heaviest(room, cells, weights)
    return {piece: int(weights[i]) for i, piece in enumerate(sizes)}, heaviest


def _heaviest(room: int, cells: list[int], weights: Integers) -> tuple[int, Integers]:
    """The weight of the heaviest set of pieces that fits the cells, and its counts; exact."""
    best = np.zeros(room + 1, dtype=np.int64)
    layers: list[Integers] = []
    for cell, weight in zip(cells, weights, strict=True):
        layers.append(best)
        if weight == 0:
            continue
        # In steps of the piece's size: the best count is a running maximum down the columns.
        steps = np.arange(-(-(room + 1) // cell), dtype=np.int64)[:, None] * weight
        table = np.full(len(steps) * cell, -(1 << 62), dtype=np.int64)
        table[: room + 1] = best
        best = (np.maximum.accumulate(table.reshape(-1, cell) - steps, axis=0) + steps).ravel()[: room + 1]
    top = int(best[room])
    counts = np.zeros(len(cells), dtype=np.int64)
    at = room
    for i in range(len(cells) - 1, -1, -1):
        cell, weight = cells[i], int(weights[i])
        value = best[at]
        before = layers[i]
        while weight and at >= 0 and before[at] != value:
            at -= cell
            value -= weight
            counts[i] += 1
        best = before
    return top, counts
