"""An answer without numpy and HiGHS: the rivals' rules, then ruin and recreate by a greedy hand; weak, never wrong."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from allotment.packing.baselines import pack_like_cluster_autoscaler, pack_like_karpenter
from allotment.packing.oracle import FeasibilityOracle, load_of
from allotment.packing.partial_solution import PartialSolution
from allotment.packing.problem import KeepGoing, Load, Problem, Progress
from allotment.packing.simple_bound import simple_bound

#: Steps without a better answer after which there is no more hope.
_PATIENCE = 300


def search_plainly(
    problem: Problem, truth: FeasibilityOracle, keep_going: KeepGoing, seed: int, progress: Progress | None
) -> PartialSolution:
    """The best answer found until there is no time or no hope."""
    shares = _shares(problem)
    best = greedy(problem, truth)
    for buy in (pack_like_karpenter, lambda basket, truth: pack_like_cluster_autoscaler(basket, truth, "least-waste")):
        if keep_going():
            other = PartialSolution(problem, problem.counts)
            buy(other, truth)
            best = min(best, other, key=PartialSolution.rank)
    bound = simple_bound(problem, problem.counts)
    if progress is not None:
        progress(best.cost, bound)
    random = Random(seed)
    idle = 0
    while idle < _PATIENCE and keep_going() and best.bins and best.rank() > (0, bound):
        after = best.copy()
        for number, load in random.choices(list(after.bins), k=random.randint(1, 6)):
            if (number, load) in after.bins:
                after.add(number, load, -1)
        noisy = [share * (1 + 0.3 * random.random()) for share in shares]
        _buy_greedily(after, truth, noisy)
        idle += 1
        if after.rank() <= best.rank():
            if after.rank() < best.rank():
                idle = 0
            best = after
    if progress is not None:
        progress(best.cost, bound)
    return best


def greedy(problem: Problem, truth: FeasibilityOracle) -> PartialSolution:
    """What a greedy hand buys."""
    basket = PartialSolution(problem, problem.counts)
    _buy_greedily(basket, truth, _shares(problem))
    return basket


def _shares(problem: Problem) -> list[float]:
    """By kind: what its item costs at least if its scarcest row is all that is paid for."""
    shares: list[float] = []
    for kind in range(len(problem.kinds)):
        costs = [0.0]
        for bin in problem.bin_types:
            needs = bin.needs[kind]
            if needs is not None and bin.price:
                parts = (
                    sum(pieces) / (row.units * row.size)
                    for row, pieces in zip(bin.rows, needs, strict=True)
                    if row.units * row.size
                )
                costs.append(bin.price * max(parts, default=1.0))
        shares.append(min(costs[1:], default=1.0) + 1e-6)
    return shares


def _buy_greedily(basket: PartialSolution, truth: FeasibilityOracle, shares: Sequence[float]) -> None:
    """Again and again the sort whose greedily filled load is worth most for its price."""
    problem = basket.problem
    order = sorted(range(len(shares)), key=lambda kind: (-shares[kind], kind))
    offers: dict[int, tuple[float, Load]] = {}
    while any(n > 0 for n in basket.unpacked):
        best: tuple[float, int] | None = None
        for number, bin in enumerate(problem.bin_types):
            if not basket.available(number):
                continue
            if number not in offers or any(n > basket.unpacked[kind] for kind, n in offers[number][1]):
                load = _filled(basket, truth, number, order)
                worth = sum(shares[kind] * n for kind, n in load)
                offers[number] = (worth / max(bin.price, 1e-6), load)
            rate, load = offers[number]
            if load and (best is None or rate > best[0]):
                best = (rate, number)
        if best is None:
            return
        load = offers[best[1]][1]
        times = min(basket.available(best[1]), *(basket.unpacked[kind] // n for kind, n in load))
        basket.add(best[1], load, times)


def _filled(basket: PartialSolution, truth: FeasibilityOracle, number: int, order: Sequence[int]) -> Load:
    """Items in that order, as many of each as the bin holds."""
    load: Load = ()
    for kind in order:
        if basket.problem.bin_types[number].needs[kind] is None:
            continue
        counts = dict(load)
        for n in range(1, basket.unpacked[kind] + 1):
            more = load_of(counts | {kind: n})
            if not truth.accepts(number, more):
                break
            load = more
    return load
