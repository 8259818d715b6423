"""The packing problem and its result: item kinds, bin types with prices and rows, limits, loads and packings.

A *row* is a resource of a bin with a capacity. A plain row (cpu) has one unit; a row of units (GPUs) has several units
of equal size, and each piece of an item fits in one unit as a whole. Rows are necessary, not sufficient: bounds and
quick rejections are derived from them. The caller's `FeasibilityCheck` decides which loads a bin holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

#: The amounts that one item takes of one row: pieces of at most one unit each. A plain row's amount is one piece.
Pieces: TypeAlias = tuple[int, ...]
#: The items of one bin: pairs of kind number and count > 0, by ascending kind.
Load: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class CapacityRow:
    """A resource of a bin: a number of units of one size."""

    name: str
    units: int
    size: int


@dataclass(frozen=True, slots=True)
class BinType:
    """A type of bin.

    ``price``: of one bin, an integer (micro-dollars an hour); 0 only for bins that exist already. ``needs``: by kind,
    the pieces that an item takes of each row, in the order of ``rows``; None if the type never holds such an item.
    ``max_count``: the number of available bins; None: unlimited. ``max_items``: by kind, the maximum number of items in
    one bin for reasons other than the rows (anti-affinity), None: unlimited; empty: unlimited for all kinds.
    ``groups``: names of the `Problem.group_limits` that bins of this type count against (quota by type, spot share).
    """

    name: str
    price: int
    rows: tuple[CapacityRow, ...]
    needs: tuple[tuple[Pieces, ...] | None, ...]
    max_count: int | None = None
    max_items: tuple[int | None, ...] = ()
    groups: tuple[str, ...] = ()


class FeasibilityCheck(Protocol):
    """Whether one bin of a type holds a load. Called often: implementations cache their results."""

    def __call__(self, bin_type: int, load: Load, /) -> bool:
        """Whether a bin of the type with this number holds all items of the load together."""
        ...


class KeepGoing(Protocol):
    """The time limit of a search. The caller owns the clock, so that the search itself is deterministic."""

    def __call__(self) -> bool:
        """Whether the search may continue."""
        ...


@dataclass(frozen=True, slots=True)
class Problem:
    """A packing problem.

    ``counts``: items by kind. ``group_limits``: the maximum number of bins by group, over all types of the group.
    """

    kinds: tuple[str, ...]
    counts: tuple[int, ...]
    bin_types: tuple[BinType, ...]
    group_limits: tuple[tuple[str, int], ...] = ()
    budget: int | None = None
    """The maximum cost of all bins together, in units of ``BinType.price``."""


@dataclass(frozen=True, slots=True)
class PackedBins:
    """``count`` bins of the type with number ``bin_type``, each with this load."""

    bin_type: int
    load: Load
    count: int


@dataclass(frozen=True, slots=True)
class Packing:
    """A solution. ``bins`` hold all items but the ``unpacked`` ones; the feasibility check accepted every load.

    ``cost``: of all bins. ``bound``: a proven lower bound on the cost of packing the same items (those not in
    ``unpacked``). ``unpacked``: items by kind that are in no bin: no type fits them, or the limits exclude it.
    """

    bins: tuple[PackedBins, ...]
    cost: int
    bound: int
    unpacked: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """The cost above the bound, as a fraction of the bound; 0 if the bound is 0."""
        return self.cost / self.bound - 1 if self.bound else 0.0


class Progress(Protocol):
    """Called when a better solution or a better bound is found."""

    def __call__(self, cost: int, bound: int, /) -> None:
        """Both in units of ``BinType.price``."""
        ...


def counts_without(problem: Problem, unpacked: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Return the items by kind, without the ``unpacked`` ones."""
    counts = list(problem.counts)
    for kind, n in unpacked:
        counts[kind] -= n
    return tuple(counts)
