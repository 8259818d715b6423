"""Which kind can always take the place of which other, so that it never is worth more.

Told to the master program, it keeps prices in order and saves many rounds (dual-optimal inequalities: Ben Amor,
Desrosiers and Valério de Carvalho, "Dual-optimal inequalities for stabilized column generation", 2006).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from allotment.packing.bin_types import Flags, Sort
from allotment.packing.master_problem import Duals, Master
from allotment.packing.oracle import FeasibilityOracle, load_of
from allotment.packing.problem import Load, Problem


def vary(master: Master, duals: Duals, truth: FeasibilityOracle) -> int:
    """Make known what the loads in use become by the exchanges in use; how many are new."""
    direct: dict[int, list[int]] = {}
    for (small, big), times in zip(master.pairs, duals.exchanged, strict=True):
        if times > 1e-6:
            direct.setdefault(big, []).append(small)
    swaps = {big: _reached(big, direct) for big in direct}
    new: list[tuple[int, Load]] = []
    # Loads that were added since the program was solved come last, and nobody knows of what use they are.
    for (number, load), times in zip(list(master.loads), duals.times, strict=False):
        if times <= 1e-6:
            continue
        for kind, n in load:
            for other in swaps.get(kind, ()):
                for many in {1, n}:
                    counts = dict(load)
                    counts[kind] -= many
                    counts[other] = counts.get(other, 0) + many
                    new.append((number, load_of(counts)))
    return master.add(load for load in dict.fromkeys(new) if truth.accepts(*load))


def _reached(kind: int, direct: Mapping[int, Sequence[int]]) -> list[int]:
    """All that can take the kind's place, by one exchange after the other."""
    found = [kind]
    for at in found:
        found += [small for small in direct.get(at, ()) if small not in found]
    return found[1:]


def exchanges(problem: Problem, sorts: Sequence[Sort]) -> list[tuple[int, int]]:
    """Pairs (small, big): by rows, wherever one of ``big`` lies one of ``small`` may lie in its stead.

    Only those from which all others follow.
    """
    kinds = len(problem.kinds)
    fits = np.ones((kinds, kinds), dtype=bool)
    for sort in sorts:
        bin = problem.bin_types[sort.number]
        inside = np.zeros(kinds, dtype=bool)
        inside[sort.kinds] = True
        # A kind of which few may be in a bin replaces nothing.
        free = inside.copy()
        if bin.max_items:
            free &= np.array([most is None for most in bin.max_items])
        fits &= free[:, None] | ~inside[None, :]
        for number, row in enumerate(bin.rows):
            fits &= _no_more(problem, sort, number, row.units, kinds)
    np.fill_diagonal(fits, False)
    # Of kinds that can replace each other, each points to the next; of all others, only the nearest count.
    both = fits & fits.T
    first = np.where(both.any(axis=1), np.minimum(np.argmax(both, axis=1), np.arange(kinds)), np.arange(kinds))
    heads = np.flatnonzero(first == np.arange(kinds))
    pairs: list[tuple[int, int]] = []
    for kind in np.flatnonzero(first != np.arange(kinds)):
        pairs += [(int(kind), int(first[kind])), (int(first[kind]), int(kind))]
    among = fits[np.ix_(heads, heads)]
    nearest = among & ~((among.astype(np.int64) @ among.astype(np.int64)) > 0)
    pairs += [(int(heads[i]), int(heads[j])) for i, j in np.argwhere(nearest)]
    return pairs


def _no_more(problem: Problem, sort: Sort, row: int, units: int, kinds: int) -> Flags:
    """Whether pieces of one kind are no more and no larger than those of another; True where the other never lies."""
    needs = problem.bin_types[sort.number].needs
    pieces = [sorted((needs[int(kind)] or ())[row], reverse=True) for kind in sort.kinds]
    width = max(map(len, pieces), default=0)
    table = np.zeros((len(pieces), max(width, 1)), dtype=np.int64)
    for i, each in enumerate(pieces):
        table[i, : len(each)] = each
    answer = np.ones((kinds, kinds), dtype=bool)
    answer[np.ix_(sort.kinds, sort.kinds)] = (table[:, None, :] <= table[None, :, :]).all(axis=2)
    return answer
