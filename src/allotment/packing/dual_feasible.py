"""Dual feasible functions: weights of pieces under which no set of pieces that fits a unit is too heavy for it.

Three pieces of 0.6 take 1.8 units by their sum but need three, as no two share one. A dual feasible function maps each
piece to a weight so that every set of pieces that fits a unit weighs at most ``capacity``; a row of weights is then as
necessary as the row itself, and often tighter. All values are integers, so that there is no rounding.

Fekete and Schepers, "New classes of fast lower bounds for bin packing problems" (2001), u^(k) and U^(eps); Carlier,
Clautiaux and Moukrim, "New reduction procedures and lower bounds for the two-dimensional bin packing problem" (2007).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class DualFeasibleFunction:
    """``weight`` maps a piece to its weight in a unit with ``capacity``."""

    name: str
    capacity: int
    weight: Callable[[int], int]


def rounding(size: int, k: int) -> DualFeasibleFunction:
    """Rounds pieces to k-ths of a unit by multiples of 1/(k+1): with k = 1, a piece over one half is a whole unit.

    >>> halves = rounding(1000, 1)
    >>> [halves.weight(piece) / halves.capacity for piece in (400, 500, 501)]
    [0.0, 0.5, 1.0]
    """

    def weight(piece: int) -> int:
        whole, rest = divmod((k + 1) * piece, size)
        return k * whole if rest == 0 else (k + 1) * whole

    return DualFeasibleFunction(f"u{k}", k * (k + 1), weight)


def threshold(size: int, minimum: int) -> DualFeasibleFunction:
    """Pieces under ``minimum`` count 0, and pieces that leave less than ``minimum`` count as a whole unit.

    >>> sixths = threshold(6, 2)
    >>> [sixths.weight(piece) for piece in (1, 2, 4, 5)]
    [0, 2, 4, 6]
    """

    def weight(piece: int) -> int:
        if piece > size - minimum:
            return size
        return piece if piece >= minimum else 0

    return DualFeasibleFunction(f"U{minimum}", size, weight)


def counting(size: int, minimum: int) -> DualFeasibleFunction:
    """Counts the pieces of size ``minimum`` that a piece displaces, doubled to stay an integer.

    >>> thirds = counting(10, 3)
    >>> [thirds.weight(piece) for piece in (2, 3, 5, 6, 8)], thirds.capacity
    ([0, 2, 3, 4, 6], 6)
    """
    fit = size // minimum

    def weight(piece: int) -> int:
        if 2 * piece > size:
            return 2 * (fit - (size - piece) // minimum)
        if 2 * piece == size:
            return fit
        return 2 * (piece // minimum)

    return DualFeasibleFunction(f"f{minimum}", 2 * fit, weight)


@lru_cache(maxsize=4096)
def standard_functions(size: int, ks: tuple[int, ...] = (1, 2, 3)) -> tuple[DualFeasibleFunction, ...]:
    """The functions that are useful for nearly all piece sizes."""
    return tuple(rounding(size, k) for k in ks)


def derived_functions(size: int, pieces: Iterable[int]) -> Iterator[DualFeasibleFunction]:
    """Functions for these piece sizes: with thresholds at a piece's size or at the space that it leaves."""
    minimums = {piece for piece in pieces if 0 < 2 * piece <= size}
    minimums |= {size - piece + 1 for piece in pieces if 0 < 2 * (size - piece + 1) <= size}
    for minimum in sorted(minimums):
        yield threshold(size, minimum)
        yield counting(size, minimum)
