"""What bins really hold: the caller's check, asked as seldom as possible and remembered.

A load that does not fit by rows, unit by unit, is refused without asking. A load that was refused refuses every larger
one: that is only a guess about the caller's check, and it costs at most a better answer, never a wrong one, as nothing
is accepted that was not asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from allotment.packing.problem import FeasibilityCheck, Load, Problem

#: Tries to put pieces into units before the caller is asked instead.
_TRIES = 3000
#: Refused loads that are compared with, per bin.
_REMEMBERED = 200


def load_of(counts: Mapping[int, int]) -> Load:
    """In the form of a load."""
    return tuple(sorted((kind, n) for kind, n in counts.items() if n > 0))


class FeasibilityOracle:
    """Answers for one problem."""

    def __init__(self, problem: Problem, holds: FeasibilityCheck) -> None:
        self.problem = problem
        self._holds = holds
        self._known: dict[tuple[int, Load], bool] = {}
        self._refused: dict[int, list[dict[int, int]]] = {}
        #: By bin: kinds that it refused although nothing else was in it.
        self.excluded_kinds: dict[int, set[int]] = {}
        self._units: dict[tuple[int, int, tuple[int, ...]], bool] = {}

    def accepts(self, bin: int, load: Load) -> bool:
        """Whether such a bin holds the load; True only on the caller's word."""
        key = (bin, load)
        known = self._known.get(key)
        if known is None:
            counts = dict(load)
            known = not load or (
                not any(
                    all(counts.get(kind, 0) >= n for kind, n in small.items()) for small in self._refused.get(bin, ())
                )
                and self.fits_rows(bin, load)
            )
            if known and load:
                known = self._holds(bin, load)
                if not known:
                    self._learn(bin, counts)
            self._known[key] = known
        return known

    @property
    def has_rejections(self) -> bool:
        """Whether anything was ever refused that rows allow: then bounds by rows and answers go separate ways."""
        return bool(self._refused)

    def _learn(self, bin: int, counts: dict[int, int]) -> None:
        """A load was refused; if one of its kinds is refused alone too, that is the reason to remember."""
        if len(counts) > 1 or sum(counts.values()) > 1:
            if not all(self.accepts(bin, ((kind, 1),)) for kind in counts):
                return
        else:
            self.excluded_kinds.setdefault(bin, set()).update(counts)
        learned = self._refused.setdefault(bin, [])
        learned[:] = [old for old in learned if not all(old.get(kind, 0) >= n for kind, n in counts.items())]
        learned.append(counts)
        del learned[:-_REMEMBERED]

    def fits_rows(self, bin: int, load: Load) -> bool:
        """Whether rows allow the load, with every piece whole in one unit. Necessary, not sufficient."""
        sort = self.problem.bin_types[bin]
        for kind, n in load:
            if sort.needs[kind] is None:
                return False
            if sort.max_items:
                most = sort.max_items[kind]
                if most is not None and n > most:
                    return False
        for number, row in enumerate(sort.rows):
            total = 0
            pieces: list[int] = []
            for kind, n in load:
                needs = sort.needs[kind]
                assert needs is not None
                total += sum(needs[number]) * n
                if row.units > 1:
                    pieces += needs[number] * n
            if total > row.units * row.size:
                return False
            if row.units > 1 and not self._in_units(row.units, row.size, tuple(sorted(pieces, reverse=True))):
                return False
        return True

    def _in_units(self, units: int, size: int, pieces: tuple[int, ...]) -> bool:
        key = (units, size, pieces)
        known = self._units.get(key)
        if known is None:
            known = self._units[key] = fits_units(units, size, pieces)
        return known

    def feasible_part(self, bin: int, load: Load, values: Sequence[float]) -> Load:
        """As much of the load as is accepted, the least valuable left out first."""
        counts = dict(load)
        while counts and not self.accepts(bin, load_of(counts)):
            for kind in sorted(counts, key=lambda kind: (values[kind], kind)):
                less = counts | {kind: counts[kind] - 1}
                if self.accepts(bin, load_of(less)):
                    return load_of(less)
            worst = min(counts, key=lambda kind: (values[kind], kind))
            counts[worst] -= 1
            if not counts[worst]:
                del counts[worst]
        return load_of(counts)


def fits_units(units: int, size: int, pieces: Sequence[int]) -> bool:
    """Whether pieces, biggest first, are seen to fit into units. False too if it takes too long to see.

    >>> in_units(2, 10, (6, 5, 5, 4)), in_units(2, 10, (6, 6, 6))
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
            room = free[unit]
            if room < piece or room in seen:
                continue
            tries += 1
            if tries > _TRIES:
                return False
            seen.add(room)
            free[unit] = room - piece
            # Equal pieces go into units in ascending order: any other order is the same again.
            if put(at + 1, unit if at + 1 < len(pieces) and pieces[at + 1] == piece else 0):
                return True
            free[unit] = room
            if room == piece:
                # What fills a unit exactly is nowhere better.
                return False
        return False

    return put(0, 0)
