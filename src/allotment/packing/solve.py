"""Solves a packing problem: greedily if that is proven optimal, else by a construction and a search with a bound."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.extras import install_command
from allotment.packing.oracle import FeasibilityOracle
from allotment.packing.partial_solution import PartialSolution
from allotment.packing.problem import FeasibilityCheck, KeepGoing, Packing, Problem, Progress, counts_without
from allotment.packing.pure_python import greedy, search_without_solver
from allotment.packing.simple_bound import simple_bound

#: Number of items times number of types up to which a greedy solution is tried first: faster than importing the solver.
_GREEDY_SIZE = 4_000
#: Number of items times number of types up to which column generation improves a bound without a time limit, and its
#: number of rounds.
_SMALL, _ROUNDS = 20_000, 40


def use_cheaper_types(solution: PartialSolution, oracle: FeasibilityOracle) -> PartialSolution:
    """Move loads to cheaper bin types as far as limits allow, including types that the search did not consider."""
    problem = solution.problem
    order = sorted(range(len(problem.bin_types)), key=lambda number: (problem.bin_types[number].price, number))
    improved = solution.copy()
    for (number, load), count in sorted(solution.bins.items()):
        remaining = count
        for other in order:
            if not remaining or problem.bin_types[other].price >= problem.bin_types[number].price:
                break
            if not oracle.accepts(other, load):
                continue
            improved.add(number, load, -remaining)
            moved = min(remaining, improved.available(other))
            if moved:
                improved.add(other, load, moved)
            remaining -= moved
            if remaining:
                improved.add(number, load, remaining)
    return improved


def solve_greedily(problem: Problem, oracle: FeasibilityOracle) -> PartialSolution | None:
    """Return the cheapest packing of all items, or None unless a greedy heuristic finds it and the bound proves it.

    Only small problems are tried.
    """
    if sum(problem.counts) * len(problem.bin_types) > _GREEDY_SIZE:
        return None
    solution = use_cheaper_types(greedy(problem, oracle), oracle)
    return solution if solution.rank() <= (0, simple_bound(problem, problem.counts)) else None


def lower_bound(
    problem: Problem, unpacked: Sequence[tuple[int, int]] = (), *, keep_going: KeepGoing | None = None
) -> int:
    """Return a lower bound on the cost of packing all items but the ``unpacked`` ones, derived from the rows alone.

    ``keep_going``: the search for a better bound runs until it returns False; None: for a fixed number of rounds.
    Without numpy and HiGHS the bound is weaker.
    """
    counts = counts_without(problem, unpacked)
    simple = simple_bound(problem, counts)
    try:
        from allotment.packing.search import column_generation_bound
    except ImportError:
        return simple
    is_small = sum(counts) * len(problem.bin_types) <= _SMALL
    rounds = 1 << 30 if keep_going is not None else _ROUNDS if is_small else 0
    return max(simple, column_generation_bound(problem, counts, rounds, keep_going or (lambda: True)))


_NO_SOLVER = f"without numpy and highspy, plans may cost more and lower bounds are weaker: {install_command('plan')}"


def solve(
    problem: Problem,
    is_feasible: FeasibilityCheck,
    *,
    keep_going: KeepGoing,
    seed: int = 0,
    progress: Progress | None = None,
) -> Packing:
    """Return the cheapest packing found until ``keep_going`` returns False; the same for equal seeds and step counts.

    The search ends earlier if the packing is proven optimal, or after many steps without an improvement.
    """
    oracle = FeasibilityOracle(problem, is_feasible)
    if (quick := solve_greedily(problem, oracle)) is not None:
        if progress is not None:
            progress(quick.cost, quick.cost)
        return Packing(tuple(quick.packed_bins()), quick.cost, quick.cost, (), ())
    notes: list[str] = []
    try:
        from allotment.packing.search import Search
    except ImportError:
        solution = use_cheaper_types(search_without_solver(problem, oracle, keep_going, seed, progress), oracle)
        bound = simple_bound(problem, solution.packed_counts())
        notes.append(_NO_SOLVER)
    else:
        search = Search(problem, oracle, keep_going, seed, progress)
        search.run()
        search.consider(use_cheaper_types(search.best, oracle))
        solution, bound = search.best, search.bound()
    unpacked = tuple((kind, n) for kind, n in enumerate(solution.unpacked) if n > 0)
    notes += _unpacked_notes(problem, unpacked)
    return Packing(tuple(solution.packed_bins()), solution.cost, min(bound, solution.cost), unpacked, tuple(notes))


def _unpacked_notes(problem: Problem, unpacked: tuple[tuple[int, int], ...]) -> list[str]:
    """Return the reasons for unpacked items that follow from the problem itself."""
    without_type = [kind for kind, _ in unpacked if all(bin_type.needs[kind] is None for bin_type in problem.bin_types)]
    notes = [f"no bin type fits {problem.kinds[kind]}" for kind in without_type]
    rest = sum(n for kind, n in unpacked if kind not in without_type)
    if rest:
        limits = []
        if problem.budget is not None:
            limits.append(f"the budget of {problem.budget}")
        limits += [f"at most {limit} of {group}" for group, limit in problem.group_limits]
        if any(bin_type.max_count is not None for bin_type in problem.bin_types):
            limits.append("the number of bins of some types")
        why = f": {', '.join(limits)}" if limits else ""
        items = "item is" if rest == 1 else "items are"
        notes.append(f"{rest} {items} not packed because the available bins have no room{why}")
    return notes
