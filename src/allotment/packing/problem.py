"""The question: kinds of items, bins that can be bought, and who says what a bin holds.

A *row* is something that runs out in a bin. A plain row (cpu) has one unit; a row of units (GPUs) has several of equal
size, and one piece of an item lies in one unit whole. Rows are necessary, not sufficient: they make bounds and quick
refusals. What a bin really holds only ``holds`` knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

#: What one item takes of one row: pieces, each at most a unit. Empty: nothing. A plain row's need is one piece.
Pieces: TypeAlias = tuple[int, ...]
#: How many of each kind are in one bin, by number of kind; only kinds that are there, in ascending order.
Load: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class CapacityRow:
    """What runs out in a bin: so many units of this size."""

    name: str
    units: int
    size: int


@dataclass(frozen=True, slots=True)
class BinType:
    """A sort of bin that can be had.

    ``price``: of one, in integers (micro-dollars an hour); 0 only for what is there already. ``most``: how many there
    are; None: any number. ``rows``: what it has. ``needs``: by kind, in the order of the kinds, what an item takes of
    each row, in the order of ``rows``; None: such an item is never in such a bin. ``each``: by kind, most items of it
    in one bin for reasons outside of the rows (anti-affinity), None: no such limit; empty: none for any. ``groups``:
    bins of one group share a limit of `Problem.group_limits` (quota by type or zone, spot share).
    """

    name: str
    price: int
    rows: tuple[CapacityRow, ...]
    needs: tuple[tuple[Pieces, ...] | None, ...]
    max_count: int | None = None
    max_items: tuple[int | None, ...] = ()
    groups: tuple[str, ...] = ()


class FeasibilityCheck(Protocol):
    """Whether one bin of a sort holds a load, exactly. Asked often: the caller remembers answers."""

    def __call__(self, bin: int, load: Load, /) -> bool:
        """Bin by its number; True only if it truly holds all of the load together."""
        ...


class KeepGoing(Protocol):
    """Whether there is time left; purity ends with the caller's clock."""

    def __call__(self) -> bool:
        """True as long as the search may go on."""
        ...


@dataclass(frozen=True, slots=True)
class Problem:
    """``counts``: items by kind. ``group_limits``: most bins of a group, all sorts of it together."""

    kinds: tuple[str, ...]
    counts: tuple[int, ...]
    bin_types: tuple[BinType, ...]
    group_limits: tuple[tuple[str, int], ...] = ()
    budget: int | None = None
    """Most that all bins together may cost, in units of ``Bin.price``."""


@dataclass(frozen=True, slots=True)
class PackedBins:
    """So many bins of a sort, each with this load."""

    bin_type: int
    load: Load
    count: int


@dataclass(frozen=True, slots=True)
class Packing:
    """An answer. ``bought`` holds everything but ``left``; every load was accepted by ``holds``.

    ``cost``: of all bins. ``bound``: no packing of the same items (those not in ``left``) costs less, as was proven.
    ``left``: items by kind that are in no bin: no sort takes them, or limits do not allow it.
    """

    bins: tuple[PackedBins, ...]
    cost: int
    bound: int
    unpacked: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """How far above the bound, as a fraction of it; 0 if nothing costs anything."""
        return self.cost / self.bound - 1 if self.bound else 0.0


class Progress(Protocol):
    """Told when something better was found or proven."""

    def __call__(self, cost: int, bound: int, /) -> None:
        """In units of ``Bin.price``."""
        ...


def counts_without(problem: Problem, unpacked: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Items by kind that are to be packed, without those that are left."""
    counts = list(problem.counts)
    for kind, n in unpacked:
        counts[kind] -= n
    return tuple(counts)
