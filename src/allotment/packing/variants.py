"""Loads with a smaller kind in a bigger one's place, so that an answer needs no exchange any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from allotment.packing.master_problem import Duals, Master
from allotment.packing.oracle import Truth, load_of
from allotment.packing.problem import Load


def vary(master: Master, duals: Duals, truth: Truth) -> int:
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
