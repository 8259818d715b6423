"""Small problems drawn at random, and their best answers by trying everything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from random import Random

from allotment.packing.problem import BinType, CapacityRow, Load, Packing, Pieces, Problem


@dataclass
class Exact:
    """What bins hold: rows unit by unit, ``each``, and pairs of kinds that do not bear each other."""

    problem: Problem
    foes: frozenset[tuple[int, int]] = frozenset()
    asked: set[tuple[int, Load]] = field(default_factory=set)

    def __call__(self, bin: int, load: Load, /) -> bool:
        held = self._holds(bin, load)
        if held:
            self.asked.add((bin, load))
        return held

    def _holds(self, bin: int, load: Load) -> bool:
        sort = self.problem.bin_types[bin]
        kinds = {kind for kind, _ in load}
        if any(a in kinds and b in kinds for a, b in self.foes):
            return False
        for kind, n in load:
            if sort.needs[kind] is None or (sort.max_items and sort.max_items[kind] is not None and n > (sort.max_items[kind] or 0)):
                return False
        for number, row in enumerate(sort.rows):
            pieces = [p for kind, n in load for p in (sort.needs[kind] or ())[number] * n]
            if not fits(tuple(sorted(pieces, reverse=True)), (row.size,) * row.units):
                return False
        return True


@lru_cache(maxsize=1 << 16)
def fits(pieces: Pieces, units: tuple[int, ...]) -> bool:
    """Whether every piece finds room in a unit, by trying everything."""
    if not pieces:
        return True
    return any(
        fits(pieces[1:], tuple(sorted((*units[:at], room - pieces[0], *units[at + 1 :]))))
        for at, room in enumerate(units)
        if room >= pieces[0]
    )


def drawn(random: Random, *, limits: bool = False) -> tuple[Problem, Exact]:
    """A problem of a few kinds, items and bins."""
    kinds = random.randint(1, 4)
    rows = random.randint(1, 2)
    gpus = random.random() < 0.7
    items = [
        (
            *((random.randint(0, 9),) for _ in range(rows)),
            *(
                (tuple(random.randint(1, 10) for _ in range(1 if random.random() < 0.8 else 2)),)
                if gpus and random.random() < 0.7
                else ((),)
            ),
        )
        for _ in range(kinds)
    ]
    items = [tuple(tuple(p for p in pieces if p) for pieces in item) for item in items]
    bins: list[BinType] = []
    for number in range(random.randint(1, 4)):
        units = random.randint(1, 3) if gpus else 0
        there = [CapacityRow(f"row {r}", 1, random.randint(4, 24)) for r in range(rows)] + [CapacityRow("gpu", units, 10)]
        free = random.random() < 0.25
        bins.append(
            BinType(
                name=f"bin {number}",
                price=0 if free else random.randint(1, 40),
                rows=tuple(there),
                needs=tuple(item if random.random() < 0.9 else None for item in items),
                max_count=random.randint(1, 2) if free or (limits and random.random() < 0.4) else None,
                max_items=tuple(random.choice((None, None, 1, 2)) for _ in items) if random.random() < 0.3 else (),
                groups=("some",) if limits and random.random() < 0.5 else (),
            )
        )
    problem = Problem(
        kinds=tuple(f"kind {k}" for k in range(kinds)),
        counts=tuple(random.randint(0, 3) for _ in range(kinds)),
        bin_types=tuple(bins),
        group_limits=(("some", random.randint(0, 3)),) if limits else (),
        budget=random.randint(0, 80) if limits and random.random() < 0.5 else None,
    )
    foes = frozenset({(0, kinds - 1)}) if kinds > 1 and random.random() < 0.2 else frozenset[tuple[int, int]]()
    return problem, Exact(problem, foes)


def best(problem: Problem, holds: Exact) -> tuple[int, int]:
    """Items that must be left, and the least cost of all others, by trying everything."""
    loads = list(_loads(problem, holds))
    limits = dict(problem.group_limits)
    found: dict[object, tuple[int, int]] = {}

    def search(
        at: int, rest: tuple[int, ...], used: tuple[tuple[str, int], ...], spent: int, of: int
    ) -> tuple[int, int]:
        """From the load of this number on; ``of``: bins of its sort already bought."""
        left = (sum(rest), 0)
        if at == len(loads) or not any(rest):
            return left
        key = (at, rest, used, spent if problem.budget is not None else 0, of)
        if key in found:
            return found[key]
        number, load = loads[at]
        bin = problem.bin_types[number]
        answer = search(at + 1, rest, used, spent, of if at + 1 < len(loads) and loads[at + 1][0] == number else 0)
        counts = dict(load)
        after = dict(used)
        for group in bin.groups:
            after[group] = after.get(group, 0) + 1
        if (
            all(rest[kind] >= n for kind, n in load)
            and (bin.max_count is None or of < bin.max_count)
            and all(after.get(group, 0) <= most for group, most in limits.items())
            and (problem.budget is None or spent + bin.price <= problem.budget)
        ):
            fewer = tuple(n - counts.get(kind, 0) for kind, n in enumerate(rest))
            more = search(at, fewer, tuple(sorted(after.items())), spent + bin.price, of + 1)
            answer = min(answer, (more[0], more[1] + bin.price))
        found[key] = answer
        return answer

    return search(0, problem.counts, (), 0, 0)


def _loads(problem: Problem, holds: Exact) -> Iterator[tuple[int, Load]]:
    for number in range(len(problem.bin_types)):
        for counts in product(*(range(n + 1) for n in problem.counts)):
            load = tuple((kind, n) for kind, n in enumerate(counts) if n)
            if load and holds(number, load):
                yield number, load


def check(problem: Problem, holds: Exact, packing: Packing) -> None:
    """Every promise of a packing, but how much it costs."""
    counts = [0] * len(problem.kinds)
    used: dict[int, int] = {}
    groups: dict[str, int] = {}
    cost = 0
    for bought in packing.bins:
        assert bought.count > 0
        assert bought.load == tuple(sorted(bought.load))
        assert (bought.bin_type, bought.load) in holds.asked, "a load that was never accepted"
        for kind, n in bought.load:
            assert n > 0
            counts[kind] += n * bought.count
        cost += problem.bin_types[bought.bin_type].price * bought.count
        used[bought.bin_type] = used.get(bought.bin_type, 0) + bought.count
        for group in problem.bin_types[bought.bin_type].groups:
            groups[group] = groups.get(group, 0) + bought.count
    for kind, n in packing.unpacked:
        assert n > 0
        counts[kind] += n
    assert tuple(counts) == problem.counts
    assert cost == packing.cost
    assert packing.bound <= packing.cost
    assert all(sort.max_count is None or used.get(number, 0) <= sort.max_count for number, sort in enumerate(problem.bin_types))
    assert all(groups.get(group, 0) <= most for group, most in problem.group_limits)
    assert problem.budget is None or cost <= problem.budget
