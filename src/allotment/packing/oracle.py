"""Cached access to the caller's feasibility check, which is called as rarely as possible.

A load that does not fit by rows, unit by unit, is rejected without a call. So is a load that contains a rejected one:
an assumption about the caller's check that may cost a better solution and never makes an invalid one, because every
accepted load was checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from allotment.packing.problem import FeasibilityCheck, Load, Problem

#: Steps of fitting pieces into units before the pieces count as not fitting.
_MAX_TRIES = 3000
#: Rejected loads that are kept per bin type, to reject larger ones.
_MAX_REJECTED = 200


def load_of(counts: Mapping[int, int]) -> Load:
    """The load with these counts by kind; kinds without items are left out."""
    return tuple(sorted((kind, n) for kind, n in counts.items() if n > 0))


class FeasibilityOracle:
    """Feasibility of loads, for one problem."""

    def __init__(self, problem: Problem, is_feasible: FeasibilityCheck) -> None:
        self.problem = problem
        self._is_feasible = is_feasible
        self._results: dict[tuple[int, Load], bool] = {}
        self._rejected: dict[int, list[dict[int, int]]] = {}
        #: By bin type, the kinds of which even a single item was rejected.
        self.excluded_kinds: dict[int, set[int]] = {}
        self._unit_results: dict[tuple[int, int, tuple[int, ...]], bool] = {}

    def accepts(self, number: int, load: Load) -> bool:
        """Whether a bin of the type holds the load; True only if the caller's check accepted it."""
        key = (number, load)
        known = self._results.get(key)
        if known is None:
            counts = dict(load)
            known = not load or (
                not any(
                    all(counts.get(kind, 0) >= n for kind, n in small.items())
                    for small in self._rejected.get(number, ())
                )
                and self.fits_rows(number, load)
            )
            if known and load:
                known = self._is_feasible(number, load)
                if not known:
                    self._learn(number, counts)
            self._results[key] = known
        return known

    def _learn(self, number: int, counts: dict[int, int]) -> None:
        """Store a rejected load, unless one of its items is rejected alone, which is then the reason."""
        if len(counts) > 1 or sum(counts.values()) > 1:
            if not all(self.accepts(number, ((kind, 1),)) for kind in counts):
                return
        else:
            self.excluded_kinds.setdefault(number, set()).update(counts)
        learned = self._rejected.setdefault(number, [])
        learned[:] = [old for old in learned if not all(old.get(kind, 0) >= n for kind, n in counts.items())]
        learned.append(counts)
        del learned[:-_MAX_REJECTED]

    def fits_rows(self, number: int, load: Load) -> bool:
        """Whether the load fits all rows, with each piece in one unit. Necessary, not sufficient."""
        bin_type = self.problem.bin_types[number]
        for kind, n in load:
            if bin_type.needs[kind] is None:
                return False
            if bin_type.max_items:
                most = bin_type.max_items[kind]
                if most is not None and n > most:
                    return False
        for position, row in enumerate(bin_type.rows):
            total = 0
            pieces: list[int] = []
            for kind, n in load:
                needs = bin_type.needs[kind]
                assert needs is not None
                total += sum(needs[position]) * n
                if row.units > 1:
                    pieces += needs[position] * n
            if total > row.units * row.size:
                return False
            if row.units > 1 and not self._fits_units(row.units, row.size, tuple(sorted(pieces, reverse=True))):
                return False
        return True

    def _fits_units(self, units: int, size: int, pieces: tuple[int, ...]) -> bool:
        key = (units, size, pieces)
        known = self._unit_results.get(key)
        if known is None:
            known = self._unit_results[key] = fits_units(units, size, pieces)
        return known

    def feasible_part(self, number: int, load: Load, values: Sequence[float]) -> Load:
        """An accepted part of the load: the least valuable items are removed first."""
        counts = dict(load)
        while counts and not self.accepts(number, load_of(counts)):
            for kind in sorted(counts, key=lambda kind: (values[kind], kind)):
                less = counts | {kind: counts[kind] - 1}
                if self.accepts(number, load_of(less)):
                    return load_of(less)
            worst = min(counts, key=lambda kind: (values[kind], kind))
            counts[worst] -= 1
            if not counts[worst]:
                del counts[worst]
        return load_of(counts)


def fits_units(units: int, size: int, pieces: Sequence[int]) -> bool:
    """Whether the pieces, in descending order, fit into the units. Also False if the search reaches its step limit.

    >>> fits_units(2, 10, (6, 5, 5, 4)), fits_units(2, 10, (6, 6, 6))
    (True, False)
    """
    if not pieces:
        return True
    if pieces[0] > size or sum(pieces) > units * size:
        return False
    free = [size] * units
    tries = 0

    def put(at: int, first: int) -> bool:
        nonlocal tries
        if at == len(pieces):
            return True
        piece = pieces[at]
        seen = set()
        for unit in range(first, units):
            left = free[unit]
            if left < piece or left in seen:
                continue
            tries += 1
            if tries > _MAX_TRIES:
                return False
            seen.add(left)
            free[unit] = left - piece
            # Equal pieces go into units in ascending order: any other order is equivalent.
            if put(at + 1, unit if at + 1 < len(pieces) and pieces[at + 1] == piece else 0):
                return True
            free[unit] = left
            if left == piece:
                # Filling a unit exactly is never worse than another unit.
                return False
        return False

    return put(0, 0)
