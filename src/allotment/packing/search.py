"""The whole search with numpy and HiGHS: prices, a construction, new loads, rounding, ruin and recreate, a bound.

One step after the other, each short; which comes next depends on what was found and never on a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from allotment.packing.assignment_relaxation import Prices, assigned, ceiling
from allotment.packing.baselines import pack_like_cluster_autoscaler, pack_like_karpenter
from allotment.packing.bin_types import Floats, Sort, dominated, sort_of
from allotment.packing.column_generation import Generation, Proof
from allotment.packing.construction import construct
from allotment.packing.cutting_planes import Sharpened, Weighings
from allotment.packing.exchanges import exchanges, vary
from allotment.packing.existing_bins import Crowd, crowd
from allotment.packing.master_problem import Master
from allotment.packing.oracle import FeasibilityOracle, load_of
from allotment.packing.partial_solution import PartialSolution
from allotment.packing.problem import KeepGoing, Load, Problem, Progress
from allotment.packing.ruin_and_recreate import Ruin


def buy_whole(
    basket: PartialSolution,
    truth: FeasibilityOracle,
    loads: Sequence[tuple[int, Load]],
    times: Floats,
    smaller: Mapping[int, Sequence[int]],
    values: Sequence[float],
) -> None:
    """Buy each load as often as its number says, rounded down; where its items are used up, with smaller ones instead.

    ``smaller``: kinds that can take the place of a kind.
    """
    order = sorted(range(len(loads)), key=lambda at: (-times[at], at))
    for at in order:
        number, load = loads[at]
        many = int(times[at] + 1e-6)
        while many > 0:
            served = _served(basket, load, smaller, values)
            if served != load and not truth.accepts(number, served):
                served = load_of({kind: min(n, max(basket.unpacked[kind], 0)) for kind, n in load})
                if not truth.accepts(number, served):
                    break
            if 2 * sum(values[kind] * n for kind, n in served) < basket.problem.bin_types[number].price:
                break
            here = min([many, basket.available(number)] + [basket.unpacked[kind] // n for kind, n in served])
            if here <= 0 or not served:
                break
            basket.add(number, served, here)
            many -= here


def _served(basket: PartialSolution, load: Load, smaller: Mapping[int, Sequence[int]], values: Sequence[float]) -> Load:
    """The load with what is left: smaller kinds where there are not enough of its own."""
    counts: dict[int, int] = {}
    for kind, n in load:
        own = min(n, max(basket.unpacked[kind] - counts.get(kind, 0), 0))
        counts[kind] = counts.get(kind, 0) + own
        for other in sorted(smaller.get(kind, ()), key=lambda other: -values[other]):
            if own == n:
                break
            more = min(n - own, max(basket.unpacked[other] - counts.get(other, 0), 0))
            counts[other] = counts.get(other, 0) + more
            own += more
    return load_of(counts)


#: Sorts whose loads are worth so much of their price are bought when an answer is improved; all, if they are so few.
_RIVALLING, _ALL = 0.97, 12
#: Steps of ruin and recreate in a turn; only every so many turns if the answer is much nearer, so many times, to what
#: parts of bins would cost than this is to the bound.
_STEPS, _TURNS, _NEAR = 15, 4, 0.3
#: So often so many steps without a better answer, after which there is no more hope.
_PATIENCE = 60
#: Items times sorts up to which the rivals' rules are tried at once, and how far from the bound they may help later.
_SMALL, _FAR = 20_000, 1.15
#: Loads up to which the best choice among them is looked for by an integer program, and for how long.
_FEW, _NODES = 300, 200
#: Rounds of new loads before the first answer by their prices.
_FIRST = 8
#: An improvement of the linear program that is too small to wait for, as a fraction, in so many rounds.
_LITTLE, _ROUNDS = 3e-4, 5


class Search:
    """One problem's search. ``basket``: the best answer so far; ``proof``: the best bound so far."""

    def __init__(
        self, problem: Problem, truth: FeasibilityOracle, keep_going: KeepGoing, seed: int, progress: Progress | None
    ) -> None:
        self.problem = problem
        self.truth = truth
        self._keep_going = keep_going
        self._progress = progress
        self._seed = seed
        self._told_rivals = False
        there = crowd(problem)
        self._crowd = Crowd(problem, there) if there else None
        self._sorts, self._worse = _sorted_out(problem, there)
        prices, self.proof = _first_proof(problem, problem.counts, self._sorts, self._crowd)
        #: So that nothing is worth nothing: what a free bin can hold is put there.
        self._some = 1e-3 * min((bin.price for bin in problem.bin_types if bin.price), default=1)
        self._weighings = Weighings()
        self._sharp = [Sharpened(problem, sort, self._weighings) for sort in self._sorts]
        self._there = PartialSolution(problem, problem.counts)
        values = prices.items + self._some
        if self._crowd is not None:
            # What is free is for those whose place would have to be bought most dearly.
            bought = assigned(problem, problem.counts, self._sorts)
            self._crowd.take(self._there, truth, bought.items + self._some, keep_going)
        self.basket = self._there.copy()
        #: Of what the search is about: the same, unless bins were filled before it.
        self._local = self.proof
        if self._crowd is not None:
            _, self._local = _first_proof(problem, self._wanted, self._sorts)
        construct(self.basket, truth, self._sorts, values, prices.rows, keep_going=keep_going)
        self.complete(self.basket)
        self.tell()

    def complete(self, basket: PartialSolution) -> None:
        """Buy for what is left, of any sort at all."""
        if any(n > 0 for n in basket.unpacked):
            every = self._sorts + self._worse
            uniform = {sort.number: 1.0 / np.maximum(sort.capacity, 1) for sort in every}
            construct(basket, self.truth, every, self.proof.items + self._some, uniform, keep_going=self._keep_going)

    def consider(self, basket: PartialSolution) -> bool:
        """Take it if it is better; whether it was."""
        if basket.rank() < self.basket.rank():
            self.basket = basket
            self.tell()
            return True
        return False

    def tell(self) -> None:
        """Of what is new."""
        if self._progress is not None:
            self._progress(self.basket.cost, self.bound())

    @property
    def _wanted(self) -> list[int]:
        """Items by kind that are not in bins that were filled first."""
        return [max(n, 0) for n in self._there.unpacked]

    def bound(self) -> int:
        """Of what the answer holds: items that are left need no bins."""
        counts = [count - max(n, 0) for count, n in zip(self.problem.counts, self.basket.unpacked, strict=True)]
        return self.proof.of(self.problem, counts)

    def run(self) -> None:
        """Search until there is no time or no hope."""
        if sum(self.problem.counts) * len(self.problem.bin_types) <= _SMALL:
            self._rivals()
        self._search()
        self._prove_all()
        if not self._told_rivals:
            self._rivals()

    def _search(self) -> None:
        pairs = exchanges(self.problem, self._sorts)
        master = Master(self.problem, self._wanted, pairs)
        master.add(self.basket.bins)
        loads = Generation(master, self._sharp, self.truth, self._local, asks=True)
        first = iter(range(_FIRST))
        self._settle(loads, lambda: loads.effort > 0 or next(first, None) is None)
        self._construct(loads)
        self._settle(loads, lambda: loads.effort > 0)
        if loads.duals is None:
            return
        # Bounds are of rows alone and may exchange; answers are of what bins hold, each item in a place of its own.
        rows = Master(self.problem, self._wanted, pairs)
        rows.add(master.loads)
        proving = Generation(rows, self._sharp, self.truth, self._local, asks=False)
        proving.effort = 1
        proving.round(self._keep_going)
        self._prove(proving)
        vary(master, loads.duals, self.truth)
        master.exchanging(False)
        self._round(loads)
        loads.hurry()
        costs = [float("inf")] * _ROUNDS

        def slow() -> bool:
            assert loads.duals is not None
            costs.append(loads.duals.cost)
            return loads.effort > 0 or costs[-1 - _ROUNDS] - costs[-1] < _LITTLE * costs[-1]

        self._settle(loads, slow)
        self._round(loads)
        if self.basket.cost > _FAR * self.bound():
            self._rivals()
        self._choose(master)
        self._improve(loads, proving)

    def _improve(self, loads: Generation, proving: Generation) -> None:
        """By turns: a proof, new loads, and ruin and recreate, which has more turns the further the answer is off."""
        assert loads.duals is not None
        rounded = loads.duals.cost
        ruin = self._ruin(loads)
        turns = hopeless = 0
        while self._keep_going() and self.basket.rank() > (0, self.bound()):
            turns += 1
            if not proving.done:
                known = len(proving.master.loads)
                proving.round(self._keep_going)
                self._prove(proving)
                held = [load for load in proving.master.loads[known:] if self.truth.accepts(*load)]
                if loads.master.add(held):
                    loads.hurry()
            if not loads.done and loads.effort == 0:
                loads.round(self._keep_going)
                self._prove(loads)
                if loads.duals.cost < rounded * (1 - _LITTLE):
                    rounded = loads.duals.cost
                    self._round(loads)
                    ruin = self._ruin(loads)
            parts = max(loads.duals.cost, 1.0)
            near = self.basket.cost / parts - 1 < _NEAR * (parts / max(self._local.bound, 1) - 1)
            if near and not proving.done and turns % _TURNS:
                continue
            better = False
            for _ in range(_STEPS):
                if self._keep_going() and ruin.step(self._keep_going):
                    better = self.consider(ruin.basket) or better
            hopeless = 0 if better else hopeless + 1
            if hopeless >= _PATIENCE and proving.done:
                break

    def _rivals(self) -> None:
        """What others would buy is an answer as well."""
        self._told_rivals = True
        for buy in (pack_like_karpenter, lambda basket, truth: pack_like_cluster_autoscaler(basket, truth, "least-waste")):
            if self._keep_going():
                basket = PartialSolution(self.problem, self.problem.counts)
                buy(basket, self.truth)
                self.consider(basket)

    def _settle(self, loads: Generation, enough: Callable[[], bool]) -> None:
        """Rounds of new loads until it is enough."""
        while self._keep_going() and not loads.done:
            loads.round(self._keep_going)
            self._prove(loads)
            if enough():
                return

    def _prove(self, loads: Generation) -> None:
        if loads.proof.bound > self._local.bound:
            self._local = loads.proof
            if self._crowd is None:
                self.proof = self._local
                self.tell()

    def _prove_all(self) -> None:
        """Of all items, with what the bins that were filled first could have held at best."""
        if self._crowd is not None:
            ceilings = self._local.ceilings | self._crowd.ceilings(self._local.items)
            proof = replace(self._local, ceilings=ceilings)
            proof = replace(proof, bound=proof.of(self.problem, self.problem.counts))
            if proof.bound > self.proof.bound:
                self.proof = proof
                self.tell()

    def _construct(self, loads: Generation) -> None:
        """An answer by the prices of this moment, better ones than those of the beginning."""
        if loads.duals is not None and self._keep_going():
            basket = self._there.copy()
            near, rows = self._near(loads.duals.items)
            values = loads.duals.items + self._some
            construct(basket, self.truth, near, values, rows, keep_going=self._keep_going)
            self.complete(basket)
            self.consider(basket)

    def _round(self, loads: Generation) -> None:
        """An answer from the linear program."""
        duals = loads.master.duals()
        if duals is None:
            return
        loads.duals = duals
        basket = self._there.copy()
        items = [float(value) for value in duals.items]
        buy_whole(basket, self.truth, loads.master.loads, duals.times, {}, items)
        near, rows = self._near(duals.items)
        construct(basket, self.truth, near, duals.items + self._some, rows, keep_going=self._keep_going)
        self.complete(basket)
        self.consider(basket)

    def _choose(self, master: Master) -> None:
        """The best choice of whole bins among the loads that are known."""
        master.add(self.basket.bins)
        if not self._keep_going() or len(master.loads) > _FEW:
            return
        chosen = master.whole(self.basket.bins, nodes=_NODES, keep_going=self._keep_going)
        basket = self._there.copy()
        items = [float(value) for value in self.proof.items]
        for (number, load), count in sorted((chosen or {}).items()):
            for _ in range(count):
                # Some loads hold more than is left by now.
                rest = load_of({kind: min(n, basket.unpacked[kind]) for kind, n in load})
                rest = self.truth.feasible_part(number, rest, items)
                if rest and basket.available(number):
                    basket.add(number, rest)
        self.complete(basket)
        self.consider(basket)

    def _near(self, items: np.ndarray) -> tuple[list[Sort], dict[int, np.ndarray]]:
        """Sorts that are worth their price, or nearly, and what their rows are worth."""
        rows = {sharp.sort.number: sharp.prices(items[sharp.sort.kinds], 0) for sharp in self._sharp}
        near = [
            sharp.sort
            for sharp in self._sharp
            if len(self._sharp) <= _ALL
            or ceiling(sharp.sort, items, rows[sharp.sort.number]) >= _RIVALLING * sharp.sort.price
        ]
        return near, rows

    def _ruin(self, loads: Generation) -> Ruin:
        assert loads.duals is not None
        near, rows = self._near(loads.duals.items)
        return Ruin(
            self.basket, self.truth, near, loads.duals.items + self._some, rows, self._seed, keep=crowd(self.problem)
        )


def _sorted_out(problem: Problem, without: Sequence[int] = ()) -> tuple[list[Sort], list[Sort]]:
    """Sorts that may be of use, and those in whose place another always does as well by rows."""
    gone = set(without)
    numbers = [number for number in range(len(problem.bin_types)) if number not in gone]
    every = [sort for number in numbers if len((sort := sort_of(problem, number)).kinds)]
    gone = dominated(every)
    return [s for s in every if s.number not in gone], [s for s in every if s.number in gone]


def _first_proof(
    problem: Problem, counts: Sequence[int], sorts: Sequence[Sort], there: Crowd | None = None
) -> tuple[Prices, Proof]:
    """What items and rows are worth if all may be cut, and what that proves."""
    prices = assigned(problem, counts, [*sorts, *(there.pooled() if there is not None else ())])
    ceilings = {sort.number: ceiling(sort, prices.items, prices.rows[sort.number]) for sort in sorts}
    if there is not None:
        ceilings |= there.ceilings(prices.items)
    proof = Proof(0, prices.items, ceilings, dict(prices.tolls))
    return prices, replace(proof, bound=proof.of(problem, counts))


def bounded(problem: Problem, counts: Sequence[int], rounds: int, keep_going: KeepGoing) -> int:
    """A bound alone, by so many rounds of new loads: none of them is bought, so that rows are all that is asked."""
    problem = replace(problem, counts=tuple(counts), budget=None)
    many = crowd(problem)
    sorts, _ = _sorted_out(problem, many)
    prices, proof = _first_proof(problem, counts, sorts, Crowd(problem, many) if many else None)
    if not rounds or many or not any(counts):
        return proof.bound
    truth = FeasibilityOracle(problem, lambda bin, load: True)
    weighings = Weighings()
    basket = PartialSolution(problem, counts)
    construct(basket, truth, sorts, prices.items + 1.0, prices.rows, keep_going=keep_going)
    master = Master(problem, counts, exchanges(problem, sorts))
    master.add(basket.bins)
    search = Generation(master, [Sharpened(problem, sort, weighings) for sort in sorts], truth, proof, asks=False)
    while rounds and keep_going() and not search.done:
        search.round(keep_going)
        rounds -= 1
    return search.proof.bound
