"""Small random packing problems, and their optimal solutions by enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from random import Random

from allotment.packing.problem import BinType, CapacityRow, Load, Packing, Pieces, Problem


@dataclass
class ExactCheck:
    """An exact feasibility check: rows unit by unit, ``max_items``, and pairs of incompatible kinds."""

    problem: Problem
    incompatible: frozenset[tuple[int, int]] = frozenset()
    accepted: set[tuple[int, Load]] = field(default_factory=set)

    def __call__(self, bin: int, load: Load, /) -> bool:
        held = self._holds(bin, load)
        if held:
            self.accepted.add((bin, load))
        return held

    def _holds(self, bin: int, load: Load) -> bool:
        bin_type = self.problem.bin_types[bin]
        kinds = {kind for kind, _ in load}
        if any(a in kinds and b in kinds for a, b in self.incompatible):
            return False
        for kind, n in load:
            if bin_type.needs[kind] is None or (
                bin_type.max_items and bin_type.max_items[kind] is not None and n > (bin_type.max_items[kind] or 0)
            ):
                return False
        for number, row in enumerate(bin_type.rows):
            pieces = [p for kind, n in load for p in (bin_type.needs[kind] or ())[number] * n]
            if not fits(tuple(sorted(pieces, reverse=True)), (row.size,) * row.units):
                return False
        return True


@lru_cache(maxsize=1 << 16)
def fits(pieces: Pieces, units: tuple[int, ...]) -> bool:
    """Whether the pieces fit into the units, by enumeration."""
    if not pieces:
        return True
    return any(
        fits(pieces[1:], tuple(sorted((*units[:at], room - pieces[0], *units[at + 1 :]))))
        for at, room in enumerate(units)
        if room >= pieces[0]
    )


def random_problem(random: Random, *, limits: bool = False) -> tuple[Problem, ExactCheck]:
    """A problem with a few kinds, items and bin types."""
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
        capacity_rows = [CapacityRow(f"row {r}", 1, random.randint(4, 24)) for r in range(rows)] + [
            CapacityRow("gpu", units, 10)
        ]
        free = random.random() < 0.25
        bins.append(
            BinType(
                name=f"bin {number}",
                price=0 if free else random.randint(1, 40),
                rows=tuple(capacity_rows),
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
    incompatible = frozenset({(0, kinds - 1)}) if kinds > 1 and random.random() < 0.2 else frozenset[tuple[int, int]]()
    return problem, ExactCheck(problem, incompatible)


def best_by_enumeration(problem: Problem, holds: ExactCheck) -> tuple[int, int]:
    """The minimum number of unpacked items and the minimum cost of the others, by enumeration."""
    loads = list(_loads(problem, holds))
    limits = dict(problem.group_limits)
    found: dict[object, tuple[int, int]] = {}

    def search(
        at: int, rest: tuple[int, ...], used: tuple[tuple[str, int], ...], spent: int, of: int
    ) -> tuple[int, int]:
        """The optimum from the load with index ``at`` on; ``of``: bins of its type that are already used."""
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


def _loads(problem: Problem, holds: ExactCheck) -> Iterator[tuple[int, Load]]:
    for number in range(len(problem.bin_types)):
        for counts in product(*(range(n + 1) for n in problem.counts)):
            load = tuple((kind, n) for kind, n in enumerate(counts) if n)
            if load and holds(number, load):
                yield number, load


def check_packing(problem: Problem, holds: ExactCheck, packing: Packing) -> None:
    """Assert all properties of a packing except its cost."""
    counts = [0] * len(problem.kinds)
    used: dict[int, int] = {}
    groups: dict[str, int] = {}
    cost = 0
    for packed in packing.bins:
        assert packed.count > 0
        assert packed.load == tuple(sorted(packed.load))
        assert (packed.bin_type, packed.load) in holds.accepted, "a load that the check never accepted"
        for kind, n in packed.load:
            assert n > 0
            counts[kind] += n * packed.count
        cost += problem.bin_types[packed.bin_type].price * packed.count
        used[packed.bin_type] = used.get(packed.bin_type, 0) + packed.count
        for group in problem.bin_types[packed.bin_type].groups:
            groups[group] = groups.get(group, 0) + packed.count
    for kind, n in packing.unpacked:
        assert n > 0
        counts[kind] += n
    assert tuple(counts) == problem.counts
    assert cost == packing.cost
    assert packing.bound <= packing.cost
    assert all(
        bin_type.max_count is None or used.get(number, 0) <= bin_type.max_count
        for number, bin_type in enumerate(problem.bin_types)
    )
    assert all(groups.get(group, 0) <= most for group, most in problem.group_limits)
    assert problem.budget is None or cost <= problem.budget
