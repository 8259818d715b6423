"""Weights under which what fits into a unit never weighs more than the unit: they see what plain sums do not.

Three pieces of 0.6 take 1.8 units by their sum and three in truth, as no two share one. A dual feasible function turns
each piece into a weight so that every set of pieces that fits a unit weighs at most ``capacity``; a row of weights is
then as necessary as the row itself, and often tighter. All in integers, so that nothing is lost to rounding.

Fekete and Schepers, "New classes of fast lower bounds for bin packing problems" (2001), u^(k) and U^(eps); Carlier,
Clautiaux and Moukrim, "New reduction procedures and lower bounds for the two-dimensional bin packing problem" (2007).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Weighing:
    """``weight`` of a piece, in a unit that bears ``capacity``."""

    name: str
    capacity: int
    weight: Callable[[int], int]


def rounding(size: int, k: int) -> Weighing:
    """Pieces over 1/(k+1) of a unit count as so many k-ths of it: with k = 1, more than half is a whole.

    >>> halves = rounding(1000, 1)
    >>> [halves.weight(piece) / halves.capacity for piece in (400, 500, 501)]
    [0.0, 0.5, 1.0]
    """

    def weight(piece: int) -> int:
        whole, rest = divmod((k + 1) * piece, size)
        return k * whole if rest == 0 else (k + 1) * whole

    return Weighing(f"u{k}", k * (k + 1), weight)


def threshold(size: int, small: int) -> Weighing:
    """Pieces under ``small`` count nothing, and those that leave less than ``small`` are a whole unit.

    >>> sixths = threshold(6, 2)
    >>> [sixths.weight(piece) for piece in (1, 2, 4, 5)]
    [0, 2, 4, 6]
    """

    def weight(piece: int) -> int:
        if piece > size - small:
            return size
        return piece if piece >= small else 0

    return Weighing(f"U{small}", size, weight)


def counting(size: int, small: int) -> Weighing:
    """How many pieces of ``small`` a piece takes the place of.

    >>> thirds = counting(10, 3)
    >>> [thirds.weight(piece) for piece in (2, 3, 5, 6, 8)], thirds.capacity
    ([0, 2, 3, 4, 6], 6)
    """
    most = size // small

    def weight(piece: int) -> int:
        if 2 * piece > size:
            return 2 * (most - (size - piece) // small)
        if 2 * piece == size:
            return most
        return 2 * (piece // small)

    return Weighing(f"f{small}", 2 * most, weight)


@lru_cache(maxsize=4096)
def weighings(size: int, ks: tuple[int, ...] = (1, 2, 3)) -> tuple[Weighing, ...]:
    """The few that pay nearly always."""
    return tuple(rounding(size, k) for k in ks)


def tuned(size: int, pieces: Iterable[int]) -> Iterator[Weighing]:
    """Those that the pieces at hand suggest: thresholds just at a piece, or just at what it leaves."""
    smalls = {piece for piece in pieces if 0 < 2 * piece <= size}
    smalls |= {size - piece + 1 for piece in pieces if 0 < 2 * (size - piece + 1) <= size}
    for small in sorted(smalls):
        yield threshold(size, small)
        yield counting(size, small)
