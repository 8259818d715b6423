"""From the question to the answer: a bound, a construction, and improvement for as long as there is time."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.extras import install_command
from allotment.packing.obvious import obvious
from allotment.packing.oracle import FeasibilityOracle
from allotment.packing.partial_solution import PartialSolution
from allotment.packing.problem import FeasibilityCheck, KeepGoing, Packing, Problem, Progress, counts_without
from allotment.packing.pure_python import search_plainly
from allotment.packing.simple_bound import simple_bound


def cheapest(basket: PartialSolution, truth: FeasibilityOracle) -> PartialSolution:
    """The same loads, moved to cheaper sorts as far as limits allow: sorts that no search had thought of may do."""
    problem = basket.problem
    order = sorted(range(len(problem.bin_types)), key=lambda number: (problem.bin_types[number].price, number))
    after = basket.copy()
    for (number, load), count in sorted(basket.bins.items()):
        rest = count
        for other in order:
            if not rest or problem.bin_types[other].price >= problem.bin_types[number].price:
                break
            if not truth.accepts(other, load):
                continue
            after.add(number, load, -rest)
            here = min(rest, after.available(other))
            if here:
                after.add(other, load, here)
            rest -= here
            if rest:
                after.add(number, load, rest)
    return after


#: Items times sorts up to which new loads are looked for although nobody said for how long.
_SMALL, _ROUNDS = 20_000, 40


def lower_bound(problem: Problem, unpacked: Sequence[tuple[int, int]] = (), *, keep_going: KeepGoing | None = None) -> int:
    """Of all items without those that are left, by rows alone; never above the cost of the best packing.

    ``keep_going``: for how long to look for a better one; None: a moment. Without numpy and HiGHS a weaker one.
    """
    counts = counts_without(problem, unpacked)
    weak = simple_bound(problem, counts)
    try:
        from allotment.packing.search import bounded
    except ImportError:
        return weak
    rounds = 1 << 30 if keep_going is not None else _ROUNDS if sum(counts) * len(problem.bin_types) <= _SMALL else 0
    return max(weak, bounded(problem, counts, rounds, keep_going or (lambda: True)))


_PLAIN = f"without numpy and highspy, answers and bounds are weaker: {install_command('plan')}"


def solve(
    problem: Problem,
    is_feasible: FeasibilityCheck,
    *,
    keep_going: KeepGoing,
    seed: int = 0,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Packing:
    """The cheapest packing that is found until ``keep_going`` ends; the same for the same seed and number of steps.

    ``seconds``: about how long ``keep_going`` will go on, if the caller knows; steps do not depend on it. It ends
    earlier if the answer is proven to be the best, or if nothing better was found for long.
    """
    truth = FeasibilityOracle(problem, is_feasible)
    if (known := obvious(problem, truth)) is not None:
        if progress is not None:
            progress(known.cost, known.cost)
        return Packing(tuple(known.packed_bins()), known.cost, known.cost, (), ())
    notes: list[str] = []
    try:
        from allotment.packing.search import Search
    except ImportError:
        basket = cheapest(search_plainly(problem, truth, keep_going, seed, progress), truth)
        bound = simple_bound(problem, packed(basket))
        notes.append(_PLAIN)
    else:
        search = Search(problem, truth, keep_going, seed, progress)
        search.run()
        search.consider(cheapest(search.basket, truth))
        basket, bound = search.basket, search.bound()
    left = tuple((kind, n) for kind, n in enumerate(basket.unpacked) if n > 0)
    notes += _left_over(problem, basket, left)
    return Packing(tuple(basket.packed_bins()), basket.cost, min(bound, basket.cost), left, tuple(notes))


def packed(basket: PartialSolution) -> list[int]:
    """Items by kind that have a place."""
    return [count - max(rest, 0) for count, rest in zip(basket.problem.counts, basket.unpacked, strict=True)]


def _left_over(problem: Problem, basket: PartialSolution, left: tuple[tuple[int, int], ...]) -> list[str]:
    """Why items are left, as far as the question itself says it."""
    nowhere = [kind for kind, _ in left if all(bin.needs[kind] is None for bin in problem.bin_types)]
    notes = [f"no sort of bin takes {problem.kinds[kind]}" for kind in nowhere]
    rest = sum(n for kind, n in left if kind not in nowhere)
    if rest:
        limits = []
        if problem.budget is not None:
            limits.append(f"the budget of {problem.budget}")
        limits += [f"at most {most} of {group}" for group, most in problem.group_limits]
        if any(bin.max_count is not None for bin in problem.bin_types):
            limits.append("how many bins there are of some sorts")
        why = f": {', '.join(limits)}" if limits else ""
        notes.append(f"{rest} items are left, as no bin that may be had holds them{why}")
    return notes
