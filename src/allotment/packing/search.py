"""The search with numpy and HiGHS: relaxation prices, construction, column generation, rounding, neighborhood search.

It runs in short steps. The next step depends on earlier results, never on a clock, so that a search is reproducible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from allotment.packing.assignment_relaxation import AssignmentPrices, assignment_prices, load_value_bound
from allotment.packing.baselines import pack_like_cluster_autoscaler, pack_like_karpenter
from allotment.packing.bin_types import BinTypeArrays, Floats, arrays_of, dominated
from allotment.packing.column_generation import ColumnGeneration, DualProof
from allotment.packing.construction import construct
from allotment.packing.cutting_planes import CutPool, TightenedBinType
from allotment.packing.exchanges import add_exchanged_loads, exchanges
from allotment.packing.existing_bins import ExistingBins, prefilled_bins
from allotment.packing.large_neighborhood_search import LargeNeighborhoodSearch
from allotment.packing.master_problem import MasterProblem
from allotment.packing.oracle import FeasibilityOracle, load_of
from allotment.packing.partial_solution import PartialSolution
from allotment.packing.problem import KeepGoing, Load, Problem, Progress


def round_down(
    solution: PartialSolution,
    oracle: FeasibilityOracle,
    loads: Sequence[tuple[int, Load]],
    usage: Floats,
    values: Sequence[float],
) -> None:
    """Add each load as often as its usage in the linear program says, rounded down.

    Items that are used up are left out of a load; a load worth less than half its bin's price is not added.
    """
    order = sorted(range(len(loads)), key=lambda at: (-usage[at], at))
    for at in order:
        number, load = loads[at]
        remaining = int(usage[at] + 1e-6)
        while remaining > 0:
            part = load_of({kind: min(n, max(solution.unpacked[kind], 0)) for kind, n in load})
            if part != load and not oracle.accepts(number, part):
                break
            if 2 * sum(values[kind] * n for kind, n in part) < solution.problem.bin_types[number].price:
                break
            count = min([remaining, solution.available(number)] + [solution.unpacked[kind] // n for kind, n in part])
            if count <= 0 or not part:
                break
            solution.add(number, part, count)
            remaining -= count


#: Improvements use types whose loads can be worth this fraction of their price, or all types if there are few.
_NEAR_PRICE, _FEW_TYPES = 0.97, 12
#: Steps of neighborhood search in a round. They run only in every fourth round while the solution is much nearer to the
#: linear program's cost than this cost is to the bound, by the ratio of the two gaps.
_STEPS, _PROOF_ROUNDS, _GAP_RATIO = 15, 4, 0.3
#: Rounds without an improvement after which the search ends.
_MAX_IDLE_ROUNDS = 60
#: Number of items times number of types up to which the baselines are tried first; for larger problems, they are tried
#: later if the cost exceeds the bound by this factor.
_SMALL_PROBLEM, _BASELINE_GAP = 20_000, 1.15
#: Maximum number of loads for which the master problem is solved with integer variables, and of nodes in that search.
_MAX_CHOICE_LOADS, _MIP_NODES = 300, 200
#: Rounds of column generation before the first construction with dual prices.
_FIRST_ROUNDS = 8
#: Column generation stalls if the linear program improves by less than this fraction in this many rounds.
_MIN_IMPROVEMENT, _STALLED_ROUNDS = 3e-4, 5


class Search:
    """The search for one problem. ``best``: the best solution so far; ``proof``: the best lower bound so far."""

    def __init__(
        self, problem: Problem, oracle: FeasibilityOracle, keep_going: KeepGoing, seed: int, progress: Progress | None
    ) -> None:
        self.problem = problem
        self.oracle = oracle
        self._keep_going = keep_going
        self._progress = progress
        self._seed = seed
        self._tried_baselines = False
        prefilled = prefilled_bins(problem)
        self._existing = ExistingBins(problem, prefilled) if prefilled else None
        self._types, self._dominated = _split_dominated(problem, prefilled)
        prices, self.proof = _initial_proof(problem, problem.counts, self._types, self._existing)
        #: Added to item values, so that bins with price 0 are filled even if the items have no dual price.
        self._min_value = 1e-3 * min((bin_type.price for bin_type in problem.bin_types if bin_type.price), default=1)
        self._cuts = CutPool()
        self._tightened = [TightenedBinType(problem, arrays, self._cuts) for arrays in self._types]
        self._start = PartialSolution(problem, problem.counts)
        values = prices.items + self._min_value
        if self._existing is not None:
            # Free capacity goes to the items that would cost the most in new bins.
            new_prices = assignment_prices(problem, problem.counts, self._types)
            self._existing.fill(self._start, oracle, new_prices.items + self._min_value, keep_going)
        self.best = self._start.copy()
        #: The best proof for the items that were not put in existing bins before the search.
        self._new_bins_proof = self.proof
        if self._existing is not None:
            _, self._new_bins_proof = _initial_proof(problem, self._remaining, self._types)
        construct(self.best, oracle, self._types, values, prices.rows, keep_going=keep_going)
        self.complete(self.best)
        self.report()

    def complete(self, solution: PartialSolution) -> None:
        """Add bins of any type, including dominated ones, for the unpacked items."""
        if any(n > 0 for n in solution.unpacked):
            types = self._types + self._dominated
            uniform = {arrays.number: 1.0 / np.maximum(arrays.capacity, 1) for arrays in types}
            construct(
                solution, self.oracle, types, self.proof.items + self._min_value, uniform, keep_going=self._keep_going
            )

    def consider(self, solution: PartialSolution) -> bool:
        """Store the solution if it is better than the best one; returns whether it was."""
        if solution.rank() < self.best.rank():
            self.best = solution
            self.report()
            return True
        return False

    def report(self) -> None:
        """Report the current cost and bound."""
        if self._progress is not None:
            self._progress(self.best.cost, self.bound())

    @property
    def _remaining(self) -> list[int]:
        """Items by kind that are not in the bins that were filled before the search."""
        return [max(n, 0) for n in self._start.unpacked]

    def bound(self) -> int:
        """A lower bound on the cost of the items that the best solution packs."""
        return self.proof.bound_for(self.problem, self.best.packed_counts())

    def run(self) -> None:
        """Search until ``keep_going`` returns False or the search stalls."""
        if sum(self.problem.counts) * len(self.problem.bin_types) <= _SMALL_PROBLEM:
            self._try_baselines()
        self._search()
        self._prove_with_existing()
        if not self._tried_baselines:
            self._try_baselines()

    def _search(self) -> None:
        pairs = exchanges(self.problem, self._types)
        master = MasterProblem(self.problem, self._remaining, pairs)
        master.add(self.best.bins)
        columns = ColumnGeneration(master, self._tightened, self.oracle, self._new_bins_proof, check_loads=True)
        first = iter(range(_FIRST_ROUNDS))
        self._generate(columns, lambda: columns.effort > 0 or next(first, None) is None)
        self._construct(columns)
        self._generate(columns, lambda: columns.effort > 0)
        if columns.duals is None:
            return
        # Bounds are derived from rows and may use exchanges; solutions need loads that pass the feasibility check.
        proof_master = MasterProblem(self.problem, self._remaining, pairs)
        proof_master.add(master.loads)
        proof_columns = ColumnGeneration(
            proof_master, self._tightened, self.oracle, self._new_bins_proof, check_loads=False
        )
        proof_columns.effort = 1
        proof_columns.round(self._keep_going)
        self._use_proof(proof_columns)
        add_exchanged_loads(master, columns.duals, self.oracle)
        master.allow_exchanges(False)
        self._round(columns)
        columns.restart()
        costs = [float("inf")] * _STALLED_ROUNDS

        def slow() -> bool:
            assert columns.duals is not None
            costs.append(columns.duals.cost)
            return columns.effort > 0 or costs[-1 - _STALLED_ROUNDS] - costs[-1] < _MIN_IMPROVEMENT * costs[-1]

        self._generate(columns, slow)
        self._round(columns)
        if self.best.cost > _BASELINE_GAP * self.bound():
            self._try_baselines()
        self._solve_integer(master)
        self._improve(columns, proof_columns)

    def _improve(self, columns: ColumnGeneration, proof_columns: ColumnGeneration) -> None:
        """Alternate between proofs, new loads, and neighborhood search, which runs more often the larger the gap is."""
        assert columns.duals is not None
        rounded = columns.duals.cost
        neighborhoods = self._neighborhood_search(columns)
        rounds = idle = 0
        while self._keep_going() and self.best.rank() > (0, self.bound()):
            rounds += 1
            if not proof_columns.done:
                known = len(proof_columns.master.loads)
                proof_columns.round(self._keep_going)
                self._use_proof(proof_columns)
                feasible = [load for load in proof_columns.master.loads[known:] if self.oracle.accepts(*load)]
                if columns.master.add(feasible):
                    columns.restart()
            if not columns.done and columns.effort == 0:
                columns.round(self._keep_going)
                self._use_proof(columns)
                if columns.duals.cost < rounded * (1 - _MIN_IMPROVEMENT):
                    rounded = columns.duals.cost
                    self._round(columns)
                    neighborhoods = self._neighborhood_search(columns)
            fractional = max(columns.duals.cost, 1.0)
            is_near = self.best.cost / fractional - 1 < _GAP_RATIO * (
                fractional / max(self._new_bins_proof.bound, 1) - 1
            )
            if is_near and not proof_columns.done and rounds % _PROOF_ROUNDS:
                continue
            improved = False
            for _ in range(_STEPS):
                if self._keep_going() and neighborhoods.step(self._keep_going):
                    improved = self.consider(neighborhoods.solution) or improved
            idle = 0 if improved else idle + 1
            if idle >= _MAX_IDLE_ROUNDS and proof_columns.done:
                break

    def _try_baselines(self) -> None:
        """Consider the solutions of the baselines."""
        self._tried_baselines = True
        for pack in (
            pack_like_karpenter,
            lambda solution, oracle: pack_like_cluster_autoscaler(solution, oracle, "least-waste"),
        ):
            if self._keep_going():
                solution = PartialSolution(self.problem, self.problem.counts)
                pack(solution, self.oracle)
                self.consider(solution)

    def _generate(self, columns: ColumnGeneration, is_enough: Callable[[], bool]) -> None:
        """Generate columns until ``is_enough`` returns True."""
        while self._keep_going() and not columns.done:
            columns.round(self._keep_going)
            self._use_proof(columns)
            if is_enough():
                return

    def _use_proof(self, columns: ColumnGeneration) -> None:
        if columns.proof.bound > self._new_bins_proof.bound:
            self._new_bins_proof = columns.proof
            if self._existing is None:
                self.proof = self._new_bins_proof
                self.report()

    def _prove_with_existing(self) -> None:
        """Derive a bound for all items, counting the most that the bins filled before the search could have held."""
        if self._existing is not None:
            ceilings = self._new_bins_proof.value_bounds | self._existing.value_bounds(self._new_bins_proof.items)
            proof = replace(self._new_bins_proof, value_bounds=ceilings)
            proof = replace(proof, bound=proof.bound_for(self.problem, self.problem.counts))
            if proof.bound > self.proof.bound:
                self.proof = proof
                self.report()

    def _construct(self, columns: ColumnGeneration) -> None:
        """Construct a solution with the current dual prices."""
        if columns.duals is not None and self._keep_going():
            solution = self._start.copy()
            types, rows = self._competitive_types(columns.duals.items)
            values = columns.duals.items + self._min_value
            construct(solution, self.oracle, types, values, rows, keep_going=self._keep_going)
            self.complete(solution)
            self.consider(solution)

    def _round(self, columns: ColumnGeneration) -> None:
        """Construct a solution by rounding the linear program's solution."""
        duals = columns.master.duals()
        if duals is None:
            return
        columns.duals = duals
        solution = self._start.copy()
        items = [float(value) for value in duals.items]
        round_down(solution, self.oracle, columns.master.loads, duals.usage, items)
        types, rows = self._competitive_types(duals.items)
        construct(solution, self.oracle, types, duals.items + self._min_value, rows, keep_going=self._keep_going)
        self.complete(solution)
        self.consider(solution)

    def _solve_integer(self, master: MasterProblem) -> None:
        """Solve the master problem with integer variables, if it has few loads."""
        master.add(self.best.bins)
        if not self._keep_going() or len(master.loads) > _MAX_CHOICE_LOADS:
            return
        chosen = master.solve_integer(self.best.bins, nodes=_MIP_NODES, keep_going=self._keep_going)
        solution = self._start.copy()
        items = [float(value) for value in self.proof.items]
        for (number, load), count in sorted((chosen or {}).items()):
            for _ in range(count):
                # A load may hold more items than are unpacked.
                rest = load_of({kind: min(n, solution.unpacked[kind]) for kind, n in load})
                rest = self.oracle.feasible_part(number, rest, items)
                if rest and solution.available(number):
                    solution.add(number, rest)
        self.complete(solution)
        self.consider(solution)

    def _competitive_types(self, items: np.ndarray) -> tuple[list[BinTypeArrays], dict[int, np.ndarray]]:
        """Bin types whose loads can be worth nearly their price, and the row prices of all types."""
        rows = {
            tightened.arrays.number: tightened.row_prices(items[tightened.arrays.kinds], 0)
            for tightened in self._tightened
        }
        types = [
            tightened.arrays
            for tightened in self._tightened
            if len(self._tightened) <= _FEW_TYPES
            or load_value_bound(tightened.arrays, items, rows[tightened.arrays.number])
            >= _NEAR_PRICE * tightened.arrays.price
        ]
        return types, rows

    def _neighborhood_search(self, columns: ColumnGeneration) -> LargeNeighborhoodSearch:
        assert columns.duals is not None
        types, rows = self._competitive_types(columns.duals.items)
        return LargeNeighborhoodSearch(
            self.best,
            self.oracle,
            types,
            columns.duals.items + self._min_value,
            rows,
            self._seed,
            keep=prefilled_bins(self.problem),
        )


def _split_dominated(problem: Problem, excluded: Sequence[int] = ()) -> tuple[list[BinTypeArrays], list[BinTypeArrays]]:
    """The bin types that no other one dominates, and the dominated ones."""
    skipped = set(excluded)
    numbers = [number for number in range(len(problem.bin_types)) if number not in skipped]
    types = [arrays for number in numbers if len((arrays := arrays_of(problem, number)).kinds)]
    worse = dominated(types)
    return [t for t in types if t.number not in worse], [t for t in types if t.number in worse]


def _initial_proof(
    problem: Problem, counts: Sequence[int], types: Sequence[BinTypeArrays], existing: ExistingBins | None = None
) -> tuple[AssignmentPrices, DualProof]:
    """The prices of the assignment relaxation, and the bound that they prove."""
    prices = assignment_prices(problem, counts, [*types, *(existing.pooled() if existing is not None else ())])
    ceilings = {arrays.number: load_value_bound(arrays, prices.items, prices.rows[arrays.number]) for arrays in types}
    if existing is not None:
        ceilings |= existing.value_bounds(prices.items)
    proof = DualProof(0, prices.items, ceilings, dict(prices.group_prices))
    return prices, replace(proof, bound=proof.bound_for(problem, counts))


def column_generation_bound(problem: Problem, counts: Sequence[int], rounds: int, keep_going: KeepGoing) -> int:
    """A lower bound from rows alone, by at most this many rounds of column generation without feasibility checks."""
    problem = replace(problem, counts=tuple(counts), budget=None)
    prefilled = prefilled_bins(problem)
    types, _ = _split_dominated(problem, prefilled)
    prices, proof = _initial_proof(problem, counts, types, ExistingBins(problem, prefilled) if prefilled else None)
    if not rounds or prefilled or not any(counts):
        return proof.bound
    oracle = FeasibilityOracle(problem, lambda _, load: True)
    cuts = CutPool()
    solution = PartialSolution(problem, counts)
    construct(solution, oracle, types, prices.items + 1.0, prices.rows, keep_going=keep_going)
    master = MasterProblem(problem, counts, exchanges(problem, types))
    master.add(solution.bins)
    columns = ColumnGeneration(
        master, [TightenedBinType(problem, arrays, cuts) for arrays in types], oracle, proof, check_loads=False
    )
    while rounds and keep_going() and not columns.done:
        columns.round(keep_going)
        rounds -= 1
    return columns.proof.bound
