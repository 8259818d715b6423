"""The search without numpy and HiGHS: the baselines, then a neighborhood search with a greedy heuristic."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from allotment.packing.baselines import pack_like_cluster_autoscaler, pack_like_karpenter
from allotment.packing.oracle import FeasibilityOracle, load_of
from allotment.packing.partial_solution import PartialSolution
from allotment.packing.problem import KeepGoing, Load, Problem, Progress
from allotment.packing.simple_bound import simple_bound

#: Steps without an improvement after which the search ends.
_MAX_IDLE_STEPS = 300


def search_without_solver(
    problem: Problem, oracle: FeasibilityOracle, keep_going: KeepGoing, seed: int, progress: Progress | None
) -> PartialSolution:
    """The best solution found until ``keep_going`` returns False or the search stalls."""
    values = _least_costs(problem)
    best = greedy(problem, oracle)
    for pack in (
        pack_like_karpenter,
        lambda solution, oracle: pack_like_cluster_autoscaler(solution, oracle, "least-waste"),
    ):
        if keep_going():
            candidate = PartialSolution(problem, problem.counts)
            pack(candidate, oracle)
            best = min(best, candidate, key=PartialSolution.rank)
    bound = simple_bound(problem, problem.counts)
    if progress is not None:
        progress(best.cost, bound)
    random = Random(seed)
    idle = 0
    while idle < _MAX_IDLE_STEPS and keep_going() and best.bins and best.rank() > (0, bound):
        after = best.copy()
        for number, load in random.choices(list(after.bins), k=random.randint(1, 6)):
            if (number, load) in after.bins:
                after.add(number, load, -1)
        noisy = [share * (1 + 0.3 * random.random()) for share in values]
        _add_greedily(after, oracle, noisy)
        idle += 1
        if after.rank() <= best.rank():
            if after.rank() < best.rank():
                idle = 0
            best = after
    if progress is not None:
        progress(best.cost, bound)
    return best


def greedy(problem: Problem, oracle: FeasibilityOracle) -> PartialSolution:
    """The solution of the greedy heuristic."""
    solution = PartialSolution(problem, problem.counts)
    _add_greedily(solution, oracle, _least_costs(problem))
    return solution


def _least_costs(problem: Problem) -> list[float]:
    """By kind, the lowest cost of an item if only its scarcest row is paid for."""
    shares: list[float] = []
    for kind in range(len(problem.kinds)):
        costs = [0.0]
        for bin_type in problem.bin_types:
            needs = bin_type.needs[kind]
            if needs is not None and bin_type.price:
                parts = (
                    sum(pieces) / (row.units * row.size)
                    for row, pieces in zip(bin_type.rows, needs, strict=True)
                    if row.units * row.size
                )
                costs.append(bin_type.price * max(parts, default=1.0))
        shares.append(min(costs[1:], default=1.0) + 1e-6)
    return shares


def _add_greedily(solution: PartialSolution, oracle: FeasibilityOracle, values: Sequence[float]) -> None:
    """Add the bin type whose greedy load has the highest value per price, until all items are packed."""
    problem = solution.problem
    order = sorted(range(len(values)), key=lambda kind: (-values[kind], kind))
    loads: dict[int, tuple[float, Load]] = {}
    while any(n > 0 for n in solution.unpacked):
        best: tuple[float, int] | None = None
        for number, bin_type in enumerate(problem.bin_types):
            if not solution.available(number):
                continue
            if number not in loads or any(n > solution.unpacked[kind] for kind, n in loads[number][1]):
                load = _greedy_load(solution, oracle, number, order)
                worth = sum(values[kind] * n for kind, n in load)
                loads[number] = (worth / max(bin_type.price, 1e-6), load)
            rate, load = loads[number]
            if load and (best is None or rate > best[0]):
                best = (rate, number)
        if best is None:
            return
        load = loads[best[1]][1]
        times = min(solution.available(best[1]), *(solution.unpacked[kind] // n for kind, n in load))
        solution.add(best[1], load, times)


def _greedy_load(solution: PartialSolution, oracle: FeasibilityOracle, number: int, order: Sequence[int]) -> Load:
    """A load of kinds in this order, with as many items of each as the bin holds."""
    load: Load = ()
    for kind in order:
        if solution.problem.bin_types[number].needs[kind] is None:
            continue
        counts = dict(load)
        for n in range(1, solution.unpacked[kind] + 1):
            more = load_of(counts | {kind: n})
            if not oracle.accepts(number, more):
                break
            load = more
    return load
