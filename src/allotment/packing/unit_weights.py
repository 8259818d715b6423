"""The best weights of pieces for a given crowd of them: none that fits one unit together weighs more than the unit.

`dual_feasible` has weights that can be written down; these are found, by packing the crowd into units with parts of
units allowed (Gilmore and Gomory): what a piece weighs is what one more of it would cost there. A crowd that does not
fit is nearly always too heavy by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

import numpy as np

from allotment.packing.bin_types import Integers
from allotment.packing.linear import INFINITY, Program

#: Weights are integers, this is about one unit.
_ONE = 1 << 20
#: Cells of a unit, at most: sizes are rounded down to them, which makes weights lighter and never wrong.
_CELLS = 2000
#: Sets of pieces that are looked at.
_ROUNDS = 60
#: Of every size there is at least so much, that it gets a weight too.
_SOME = 1e-3


def unit_weights(size: int, sizes: tuple[int, ...], crowd: Mapping[int, float]) -> tuple[dict[int, int], int]:
    """Weights by size of piece, and what the heaviest set weighs that fits one unit.

    ``sizes``: all that occur, each at most ``size``; ``crowd``: how many of some of them.
    """
    step = gcd(size, *sizes)
    if size // step > _CELLS:
        step = -(-size // _CELLS)
    room = size // step
    cells = [piece // step for piece in sizes]
    many = [max(crowd.get(piece, 0.0), _SOME) for piece in sizes]
    program = Program(many, [INFINITY] * len(sizes))
    one = np.ones(1)
    first = np.zeros(1, dtype=np.int64)
    for i, cell in enumerate(cells):
        fit = room // cell if cell else 1000
        program.add(one, first, np.array([i], dtype=np.int64), np.array([float(fit)]))
    weights = np.zeros(len(sizes), dtype=np.int64)
    for _ in range(_ROUNDS):
        point = program.relaxed()
        if point is None:
            break
        weights = np.floor(np.maximum(point.duals, 0.0) * _ONE).astype(np.int64)
        # Of a piece of no cell any number would fit.
        weights[np.array(cells) == 0] = 0
        heaviest, counts = _heaviest(room, cells, weights)
        if heaviest <= _ONE * 1.001:
            break
        rows = np.flatnonzero(counts)
        program.add(one, first, rows, counts[rows].astype(np.float64))
    heaviest, _ = _heaviest(room, cells, weights)
    return {piece: int(weights[i]) for i, piece in enumerate(sizes)}, heaviest


def _heaviest(room: int, cells: list[int], weights: Integers) -> tuple[int, Integers]:
    """The heaviest set that fits so many cells, exactly."""
    best = np.zeros(room + 1, dtype=np.int64)
    layers: list[Integers] = []
    for cell, weight in zip(cells, weights, strict=True):
        layers.append(best)
        if weight == 0:
            continue
        # In steps of the piece: the best over how many of them is a running maximum down the columns.
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
