"""Pairs of item kinds in which the smaller one fits wherever the bigger one does, so that it is never worth more.

In the master problem these pairs keep dual prices consistent and save many rounds (dual-optimal inequalities: Ben
Amor, Desrosiers and Valério de Carvalho, "Dual-optimal inequalities for stabilized column generation", 2006).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from allotment.packing.bin_types import BinTypeArrays, Flags
from allotment.packing.master_problem import MasterDuals, MasterProblem
from allotment.packing.oracle import FeasibilityOracle, load_of
from allotment.packing.problem import Load, Problem


def add_exchanged_loads(master: MasterProblem, duals: MasterDuals, oracle: FeasibilityOracle) -> int:
    """Add the loads that result from applying the exchanges in use to the loads in use; returns how many are new."""
    direct: dict[int, list[int]] = {}
    for (small, big), times in zip(master.pairs, duals.exchange_usage, strict=True):
        if times > 1e-6:
            direct.setdefault(big, []).append(small)
    swaps = {big: _replacements(big, direct) for big in direct}
    new: list[tuple[int, Load]] = []
    # Loads that were added since the program was solved come last and have no usage.
    for (number, load), times in zip(list(master.loads), duals.usage, strict=False):
        if times <= 1e-6:
            continue
        for kind, n in load:
            for other in swaps.get(kind, ()):
                for amount in {1, n}:
                    counts = dict(load)
                    counts[kind] -= amount
                    counts[other] = counts.get(other, 0) + amount
                    new.append((number, load_of(counts)))
    return master.add(load for load in dict.fromkeys(new) if oracle.accepts(*load))


def _replacements(kind: int, direct: Mapping[int, Sequence[int]]) -> list[int]:
    """All kinds that can replace the kind by a chain of exchanges."""
    found = [kind]
    for at in found:
        found += [small for small in direct.get(at, ()) if small not in found]
    return found[1:]


def exchanges(problem: Problem, types: Sequence[BinTypeArrays]) -> list[tuple[int, int]]:
    """Pairs (small, big): by rows, an item of ``small`` can replace an item of ``big`` in every bin.

    Only pairs that do not follow from others.
    """
    kinds = len(problem.kinds)
    fits = np.ones((kinds, kinds), dtype=bool)
    for arrays in types:
        bin_type = problem.bin_types[arrays.number]
        inside = np.zeros(kinds, dtype=bool)
        inside[arrays.kinds] = True
        # A kind with a maximum number per bin replaces no other.
        free = inside.copy()
        if bin_type.max_items:
            free &= np.array([most is None for most in bin_type.max_items])
        fits &= free[:, None] | ~inside[None, :]
        for number, row in enumerate(bin_type.rows):
            fits &= _is_no_larger(problem, arrays, number, row.units, kinds)
    np.fill_diagonal(fits, False)
    # Kinds that can replace each other are paired with the first of them; of the others only direct pairs count.
    equivalent = fits & fits.T
    first = np.where(
        equivalent.any(axis=1), np.minimum(np.argmax(equivalent, axis=1), np.arange(kinds)), np.arange(kinds)
    )
    heads = np.flatnonzero(first == np.arange(kinds))
    pairs: list[tuple[int, int]] = []
    for kind in np.flatnonzero(first != np.arange(kinds)):
        pairs += [(int(kind), int(first[kind])), (int(first[kind]), int(kind))]
    among = fits[np.ix_(heads, heads)]
    nearest = among & ~((among.astype(np.int64) @ among.astype(np.int64)) > 0)
    pairs += [(int(heads[i]), int(heads[j])) for i, j in np.argwhere(nearest)]
    return pairs


def _is_no_larger(problem: Problem, arrays: BinTypeArrays, row: int, units: int, kinds: int) -> Flags:
    """Whether the pieces of one kind are no more and no larger than those of another; True if no bin has the other."""
    needs = problem.bin_types[arrays.number].needs
    pieces = [sorted((needs[int(kind)] or ())[row], reverse=True) for kind in arrays.kinds]
    width = max(map(len, pieces), default=0)
    table = np.zeros((len(pieces), max(width, 1)), dtype=np.int64)
    for i, each in enumerate(pieces):
        table[i, : len(each)] = each
    answer = np.ones((kinds, kinds), dtype=bool)
    answer[np.ix_(arrays.kinds, arrays.kinds)] = (table[:, None, :] <= table[None, :, :]).all(axis=2)
    return answer
