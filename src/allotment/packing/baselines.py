"""Baselines: the packings that the rules of Karpenter and cluster-autoscaler produce, with the same feasibility check.

They serve for comparison, and as initial solutions, so that the search is never worse. Karpenter's rules are those of
its ``pkg/controllers/provisioning/scheduling``, cluster-autoscaler's those of its ``core/scaleup/orchestrator``,
``estimator`` and ``expander``, both as of August 2026. Here both get the exact feasibility check, which is more
than they have themselves. Equal nodes are counted, not listed, which does not change the result.

The rules read the rows named ``cpu`` (in thousandths) and ``memory`` (in bytes), or else the first two rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import tanh

from allotment.packing.oracle import FeasibilityOracle, load_of
from allotment.packing.partial_solution import PartialSolution
from allotment.packing.problem import FeasibilityCheck, Load, Packing, Problem
from allotment.packing.simple_bound import simple_bound

#: The maximum number of nodes that cluster-autoscaler adds in one loop.
_MAX_NODES = 1000
#: Prices of a CPU and a GiB of memory of a pod in cluster-autoscaler's table, in micro-dollars per hour.
_CPU_PRICE, _MEMORY_PRICE = 33_174.0, 4_446.0
#: Pairs of a cluster size and the number of CPU cores per node that is preferred up to this size.
_PREFERRED = ((2, 1), (6, 2), (20, 4), (60, 8), (200, 16))
_GIB = float(1 << 30)


def karpenter(problem: Problem, is_feasible: FeasibilityCheck) -> Packing:
    """Items by cpu, then memory, biggest first: into an existing node, else into the planned node with the fewest items
    for which a type remains that holds one more, else into a new node. The cheapest remaining type is launched.
    """
    solution = PartialSolution(problem, problem.counts)
    pack_like_karpenter(solution, FeasibilityOracle(problem, is_feasible))
    return _packing(solution)


def cluster_autoscaler(problem: Problem, is_feasible: FeasibilityCheck, expander: str = "least-waste") -> Packing:
    """Existing nodes first; then each loop adds nodes of one type. First-fit decreasing estimates how many each type
    needs, and the expander (``least-waste``, ``price`` or ``most-pods``) chooses the type.
    """
    solution = PartialSolution(problem, problem.counts)
    pack_like_cluster_autoscaler(solution, FeasibilityOracle(problem, is_feasible), expander)
    return _packing(solution)


def _packing(solution: PartialSolution) -> Packing:
    left = tuple((kind, n) for kind, n in enumerate(solution.unpacked) if n > 0)
    bound = simple_bound(solution.problem, solution.packed_counts())
    return Packing(tuple(solution.packed_bins()), solution.cost, bound, left)


# --- common to both --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Size:
    cpu: int
    memory: int


def _rows(problem: Problem, number: int) -> tuple[int, int]:
    """The indices of the cpu and memory rows of a bin type."""
    names = [row.name for row in problem.bin_types[number].rows]
    last = len(names) - 1
    return (names.index("cpu") if "cpu" in names else 0, names.index("memory") if "memory" in names else min(1, last))


def _sizes(problem: Problem) -> list[_Size]:
    """Sizes by kind, from the needs of the first bin type that fits it."""
    sizes: list[_Size] = []
    for kind in range(len(problem.kinds)):
        size = _Size(0, 0)
        for number, bin_type in enumerate(problem.bin_types):
            needs = bin_type.needs[kind]
            if needs is not None and bin_type.rows:
                cpu, memory = _rows(problem, number)
                size = _Size(sum(needs[cpu]), sum(needs[memory]))
                break
        sizes.append(size)
    return sizes


def _with(load: Load, kind: int, n: int = 1) -> Load:
    counts = dict(load)
    counts[kind] = counts.get(kind, 0) + n
    return load_of(counts)


def _fill_existing(solution: PartialSolution, oracle: FeasibilityOracle, order: Sequence[int]) -> None:
    """Items in this order, each into the first existing node that holds it."""
    problem = solution.problem
    nodes: list[tuple[int, Load]] = []
    for number, bin_type in enumerate(problem.bin_types):
        if not bin_type.price:
            nodes += [(number, ())] * min(solution.available(number), sum(problem.counts))
    rest = list(solution.unpacked)
    for kind in order:
        for at, (number, load) in enumerate(nodes):
            while rest[kind] > 0 and oracle.accepts(number, _with(load, kind)):
                load = _with(load, kind)
                rest[kind] -= 1
            nodes[at] = (number, load)
    for number, load in nodes:
        if load and solution.available(number):
            solution.add(number, load)


class _FeasibleTypes:
    """The bin types that hold a load. Rows are checked first, to call the exact check as rarely as possible."""

    def __init__(self, oracle: FeasibilityOracle, numbers: Sequence[int]) -> None:
        self._oracle = oracle
        self._bin_types = oracle.problem.bin_types
        #: By load: types that fit it by rows, cheapest first, with the amounts that it takes of their rows.
        self._types: dict[Load, list[tuple[int, tuple[int, ...]]]] = {
            (): [(number, (0,) * len(self._bin_types[number].rows)) for number in numbers]
        }
        self._holds: dict[Load, bool] = {}

    def extend(self, load: Load, kind: int) -> Load | None:
        """The load with one more item of the kind, or None if no type holds it."""
        after = _with(load, kind)
        known = self._holds.get(after)
        if known is None:
            found: list[tuple[int, tuple[int, ...]]] = []
            for number, taken in self._types[load]:
                bin_type = self._bin_types[number]
                needs = bin_type.needs[kind]
                if needs is None:
                    continue
                total = tuple([before + sum(need) for before, need in zip(taken, needs, strict=True)])
                if all(n <= row.units * row.size for n, row in zip(total, bin_type.rows, strict=True)):
                    found.append((number, total))
            self._types[after] = found
            known = self._holds[after] = any(self._oracle.accepts(number, after) for number, _ in reversed(found))
        return after if known else None

    def of_load(self, load: Load) -> list[int]:
        """Numbers of the types that hold the load, cheapest first."""
        return [number for number, _ in self._types[load] if self._oracle.accepts(number, load)]


# --- Karpenter -------------------------------------------------------------------------------------------------------


def pack_like_karpenter(solution: PartialSolution, oracle: FeasibilityOracle) -> None:
    """Pack the unpacked items by Karpenter's rules."""
    problem = solution.problem
    sizes = _sizes(problem)
    order = sorted(range(len(sizes)), key=lambda kind: (-sizes[kind].cpu, -sizes[kind].memory, kind))
    _fill_existing(solution, oracle, order)
    numbers = [
        number for number, bin_type in enumerate(problem.bin_types) if bin_type.price and solution.available(number)
    ]
    numbers.sort(key=lambda number: (problem.bin_types[number].price, number))
    feasible = _FeasibleTypes(oracle, numbers)
    planned: dict[Load, int] = {}
    for kind in order:
        rest = solution.unpacked[kind]
        # Each of the nodes with the fewest items takes one before any of them takes a second.
        tried: set[Load] = set()
        while rest > 0:
            untried = [load for load in planned if load not in tried]
            load = min(untried, key=lambda load: (sum(n for _, n in load), load), default=())
            after = feasible.extend(load, kind)
            if load == ():
                if after is None:
                    break
                # A new node is the next candidate, as it has the fewest items.
                planned[after] = planned.get(after, 0) + 1
                rest -= 1
                tried.discard(after)
                continue
            tried.add(load)
            if after is not None:
                number_taken = min(planned[load], rest)
                planned[load] -= number_taken
                if not planned[load]:
                    del planned[load]
                planned[after] = planned.get(after, 0) + number_taken
                tried.discard(after)
                rest -= number_taken
    for load, count in planned.items():
        for number in feasible.of_load(load):
            number_taken = min(count, solution.available(number))
            if number_taken:
                solution.add(number, load, number_taken)
                count -= number_taken
            if not count:
                break


# --- cluster-autoscaler ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ScaleUpOption:
    """``count`` nodes of one type, by load, and the total cpu, memory and number of items that they hold."""

    number: int
    nodes: dict[Load, int]
    count: int
    cpu: int
    memory: int
    items: int


def pack_like_cluster_autoscaler(solution: PartialSolution, oracle: FeasibilityOracle, expander: str) -> None:
    """Pack the unpacked items by cluster-autoscaler's rules."""
    score = _EXPANDERS[expander]
    problem = solution.problem
    sizes = _sizes(problem)
    order = sorted(range(len(sizes)), key=lambda kind: (-sizes[kind].cpu, -sizes[kind].memory, kind))
    _fill_existing(solution, oracle, order)
    while any(n > 0 for n in solution.unpacked):
        options = [
            option
            for number, bin_type in enumerate(problem.bin_types)
            if bin_type.price
            and solution.available(number)
            and (option := _estimate(solution, oracle, number, sizes)) is not None
        ]
        if not options:
            return
        best = min(options, key=lambda option: (score(solution, option, sizes), option.number))
        for load, count in best.nodes.items():
            solution.add(best.number, load, count)


def _estimate(
    solution: PartialSolution, oracle: FeasibilityOracle, number: int, sizes: Sequence[_Size]
) -> _ScaleUpOption | None:
    """First-fit decreasing of all unpacked items onto new nodes of one type."""
    problem = solution.problem
    bin_type = problem.bin_types[number]
    cpu_row, memory_row = _rows(problem, number)
    cpu = max(bin_type.rows[cpu_row].size, 1)
    memory = max(bin_type.rows[memory_row].size, 1)
    feasible = _FeasibleTypes(oracle, [number])
    kinds = [kind for kind, n in enumerate(solution.unpacked) if n > 0 and bin_type.needs[kind] is not None]
    kinds.sort(key=lambda kind: (-(sizes[kind].cpu / cpu + sizes[kind].memory / memory), kind))
    most = min(solution.available(number), _MAX_NODES)
    runs: list[tuple[Load, int]] = []
    used = 0
    for kind in kinds:
        rest = solution.unpacked[kind]
        after: list[tuple[Load, int]] = []
        for load, count in runs:
            rest, parts = _fill_nodes(feasible, load, count, kind, rest)
            after += parts
        if rest > 0 and used < most and feasible.extend((), kind) is not None:
            room = most - used
            rest, parts = _fill_nodes(feasible, (), room, kind, rest)
            new = [(load, count) for load, count in parts if load]
            used += sum(count for _, count in new)
            after += new
        runs = after
    if not runs:
        return None
    nodes: dict[Load, int] = {}
    for load, count in runs:
        nodes[load] = nodes.get(load, 0) + count
    helped = [(kind, n * count) for load, count in nodes.items() for kind, n in load]
    return _ScaleUpOption(
        number, nodes, used,
        sum(sizes[kind].cpu * n for kind, n in helped), sum(sizes[kind].memory * n for kind, n in helped),
        sum(n for _, n in helped),
    )  # fmt: skip


def _fill_nodes(
    feasible: _FeasibleTypes, load: Load, count: int, kind: int, rest: int
) -> tuple[int, list[tuple[Load, int]]]:
    """Fill equal nodes with items of a kind, one node after the other; returns the number left and the nodes."""
    if not rest:
        return 0, [(load, count)]
    steps = [load]
    while len(steps) <= rest:
        more = feasible.extend(steps[-1], kind)
        if more is None:
            break
        steps.append(more)
    each = len(steps) - 1
    if not each:
        return rest, [(load, count)]
    full = min(count, rest // each)
    parts = [(steps[each], full)] if full else []
    rest -= full * each
    count -= full
    if count and rest:
        parts.append((steps[rest], 1))
        count -= 1
        rest = 0
    if count:
        parts.append((load, count))
    return rest, parts


def _least_waste(solution: PartialSolution, option: _ScaleUpOption, sizes: Sequence[_Size]) -> float:
    bin_type = solution.problem.bin_types[option.number]
    cpu, memory = _rows(solution.problem, option.number)
    waste = 1 - option.cpu / max(bin_type.rows[cpu].size * option.count, 1)
    return waste + 1 - option.memory / max(bin_type.rows[memory].size * option.count, 1)


def _most_pods(solution: PartialSolution, option: _ScaleUpOption, sizes: Sequence[_Size]) -> float:
    return -float(option.items)


def _price(solution: PartialSolution, option: _ScaleUpOption, sizes: Sequence[_Size]) -> float:
    """The price of the nodes per price of the pods, times the unfitness of the node for a cluster of this size."""
    bin_type = solution.problem.bin_types[option.number]
    stable = _CPU_PRICE * 0.5 + _MEMORY_PRICE * 500 / 1024
    pods = _CPU_PRICE * option.cpu / 1000 + _MEMORY_PRICE * option.memory / _GIB
    cpu, _ = _rows(solution.problem, option.number)
    cores = bin_type.rows[cpu].size / 1000
    nodes = sum(solution.bins.values())
    preferred = next((cores for most, cores in _PREFERRED if nodes <= most), 32)
    unfit = max(cores / preferred, preferred / max(cores, 1e-9))
    if any(row.name not in ("cpu", "memory", "pods") for row in bin_type.rows):
        unfit = 1000.0
    unfit = (unfit - 1) * (1 - tanh((option.count - 1) / 15)) + 1
    exists = any(number == option.number for number, _ in solution.bins)
    return (bin_type.price * option.count + stable) / (pods + stable) * unfit * (1 if exists else 2)


_EXPANDERS: dict[str, Callable[[PartialSolution, _ScaleUpOption, Sequence[_Size]], float]] = {
    "least-waste": _least_waste,
    "most-pods": _most_pods,
    "price": _price,
}
