"""What the rules of other autoscalers would buy for the same items, by the same check.

For comparison, and as answers that ours is never worse than. Karpenter's rules are those of its
``pkg/controllers/provisioning/scheduling``, cluster-autoscaler's those of its ``core/scaleup/orchestrator``,
``estimator`` and ``expander``, both of August 2026. Both are told here what bins truly hold, which is more than they
know themselves. Equal nodes are counted, not listed: that changes nothing in what is bought.

Rows named ``cpu`` (in thousandths) and ``memory`` (in bytes) are what the rules look at; if there are none, the first
two rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import tanh

from allotment.packing.oracle import FeasibilityOracle, load_of
from allotment.packing.partial_solution import PartialSolution
from allotment.packing.problem import FeasibilityCheck, Load, Packing, Problem
from allotment.packing.simple_bound import simple_bound

#: cluster-autoscaler adds no more nodes at once.
_AT_ONCE = 1000
#: USD an hour in cluster-autoscaler's table for a pod's cpu and GiB of memory, in millionths.
_CPU_PRICE, _MEMORY_PRICE = 33_174.0, 4_446.0
#: Up to so many nodes, nodes of so many cores are preferred.
_PREFERRED = ((2, 1), (6, 2), (20, 4), (60, 8), (200, 16))
_GIB = float(1 << 30)


def karpenter(problem: Problem, is_feasible: FeasibilityCheck) -> Packing:
    """Items by cpu, then memory, biggest first: into a node that is there, else into the planned node with the fewest
    items that has a sort left which holds one more, else into a new one. The cheapest sort that is left is launched.
    """
    basket = PartialSolution(problem, problem.counts)
    pack_like_karpenter(basket, FeasibilityOracle(problem, is_feasible))
    return _packing(basket)


def cluster_autoscaler(problem: Problem, is_feasible: FeasibilityCheck, expander: str = "least-waste") -> Packing:
    """Nodes that are there first; then, loop by loop, one sort is bought: first-fit decreasing says how many of each
    would be needed, the expander (``least-waste``, ``price`` or ``most-pods``) says of which.
    """
    basket = PartialSolution(problem, problem.counts)
    pack_like_cluster_autoscaler(basket, FeasibilityOracle(problem, is_feasible), expander)
    return _packing(basket)


def _packing(basket: PartialSolution) -> Packing:
    left = tuple((kind, n) for kind, n in enumerate(basket.unpacked) if n > 0)
    counts = [count - max(rest, 0) for count, rest in zip(basket.problem.counts, basket.unpacked, strict=True)]
    return Packing(tuple(basket.packed_bins()), basket.cost, simple_bound(basket.problem, counts), left)


# --- what both look at -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Size:
    cpu: int
    memory: int


def _rows(problem: Problem, bin: int) -> tuple[int, int]:
    """Where cpu and memory are among the rows of a bin."""
    names = [row.name for row in problem.bin_types[bin].rows]
    last = len(names) - 1
    return (names.index("cpu") if "cpu" in names else 0, names.index("memory") if "memory" in names else min(1, last))


def _sizes(problem: Problem) -> list[_Size]:
    """By kind, as the first bin that takes it says."""
    sizes: list[_Size] = []
    for kind in range(len(problem.kinds)):
        size = _Size(0, 0)
        for number, bin in enumerate(problem.bin_types):
            needs = bin.needs[kind]
            if needs is not None and bin.rows:
                cpu, memory = _rows(problem, number)
                size = _Size(sum(needs[cpu]), sum(needs[memory]))
                break
        sizes.append(size)
    return sizes


def _with(load: Load, kind: int, n: int = 1) -> Load:
    counts = dict(load)
    counts[kind] = counts.get(kind, 0) + n
    return load_of(counts)


def _fill_free(basket: PartialSolution, truth: FeasibilityOracle, order: Sequence[int]) -> None:
    """Items in that order, each into the first node that is there and has room."""
    problem = basket.problem
    nodes: list[tuple[int, Load]] = []
    for number, bin in enumerate(problem.bin_types):
        if not bin.price:
            nodes += [(number, ())] * min(basket.available(number), sum(problem.counts))
    rest = list(basket.unpacked)
    for kind in order:
        for at, (number, load) in enumerate(nodes):
            while rest[kind] > 0 and truth.accepts(number, _with(load, kind)):
                load = _with(load, kind)
                rest[kind] -= 1
            nodes[at] = (number, load)
    for number, load in nodes:
        if load and basket.available(number):
            basket.add(number, load)


class _Fitting:
    """Which sorts may still hold a load by rows, fewer as it grows; the exact check is asked as late as can be."""

    def __init__(self, truth: FeasibilityOracle, numbers: Sequence[int]) -> None:
        self._truth = truth
        self._bins = truth.problem.bin_types
        #: By load: sorts that may hold it, cheapest first, with what it takes of their rows.
        self._sorts: dict[Load, list[tuple[int, tuple[int, ...]]]] = {
            (): [(number, (0,) * len(self._bins[number].rows)) for number in numbers]
        }
        self._holds: dict[Load, bool] = {}

    def grown(self, load: Load, kind: int) -> Load | None:
        """The load with one more, if any sort holds that."""
        after = _with(load, kind)
        known = self._holds.get(after)
        if known is None:
            found: list[tuple[int, tuple[int, ...]]] = []
            for number, taken in self._sorts[load]:
                bin = self._bins[number]
                needs = bin.needs[kind]
                if needs is None:
                    continue
                total = tuple([before + sum(need) for before, need in zip(taken, needs, strict=True)])
                if all(n <= row.units * row.size for n, row in zip(total, bin.rows, strict=True)):
                    found.append((number, total))
            self._sorts[after] = found
            known = self._holds[after] = any(self._truth.accepts(number, after) for number, _ in reversed(found))
        return after if known else None

    def survivors(self, load: Load) -> list[int]:
        """Sorts that hold it, cheapest first."""
        return [number for number, _ in self._sorts[load] if self._truth.accepts(number, load)]


# --- Karpenter -------------------------------------------------------------------------------------------------------


def pack_like_karpenter(basket: PartialSolution, truth: FeasibilityOracle) -> None:
    """Buy what is left in the basket by Karpenter's rules."""
    problem = basket.problem
    sizes = _sizes(problem)
    order = sorted(range(len(sizes)), key=lambda kind: (-sizes[kind].cpu, -sizes[kind].memory, kind))
    _fill_free(basket, truth, order)
    numbers = [number for number, bin in enumerate(problem.bin_types) if bin.price and basket.available(number)]
    numbers.sort(key=lambda number: (problem.bin_types[number].price, number))
    fitting = _Fitting(truth, numbers)
    planned: dict[Load, int] = {}
    for kind in order:
        rest = basket.unpacked[kind]
        # All nodes with as few items take one each before any takes a second one.
        tried: set[Load] = set()
        while rest > 0:
            waiting = [load for load in planned if load not in tried]
            load = min(waiting, key=lambda load: (sum(n for _, n in load), load), default=())
            after = fitting.grown(load, kind)
            if load == ():
                if after is None:
                    break
                # A new node is tried for more at once, as it has the fewest items then.
                planned[after] = planned.get(after, 0) + 1
                rest -= 1
                tried.discard(after)
                continue
            tried.add(load)
            if after is not None:
                here = min(planned[load], rest)
                planned[load] -= here
                if not planned[load]:
                    del planned[load]
                planned[after] = planned.get(after, 0) + here
                tried.discard(after)
                rest -= here
    for load, count in planned.items():
        for number in fitting.survivors(load):
            here = min(count, basket.available(number))
            if here:
                basket.add(number, load, here)
                count -= here
            if not count:
                break


# --- cluster-autoscaler ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Option:
    """So many nodes of a sort, by load, and what they are good for."""

    number: int
    nodes: dict[Load, int]
    count: int
    cpu: int
    memory: int
    items: int


def pack_like_cluster_autoscaler(basket: PartialSolution, truth: FeasibilityOracle, expander: str) -> None:
    """Buy what is left in the basket by cluster-autoscaler's rules."""
    score = _EXPANDERS[expander]
    problem = basket.problem
    sizes = _sizes(problem)
    every = sorted(range(len(sizes)), key=lambda kind: (-sizes[kind].cpu, -sizes[kind].memory, kind))
    _fill_free(basket, truth, every)
    while any(n > 0 for n in basket.unpacked):
        options = [
            option
            for number, bin in enumerate(problem.bin_types)
            if bin.price and basket.available(number) and (option := _estimate(basket, truth, number, sizes)) is not None
        ]
        if not options:
            return
        best = min(options, key=lambda option: (score(basket, option, sizes), option.number))
        for load, count in best.nodes.items():
            basket.add(best.number, load, count)


def _estimate(basket: PartialSolution, truth: FeasibilityOracle, number: int, sizes: Sequence[_Size]) -> _Option | None:
    """First-fit decreasing of all that waits onto new nodes of one sort."""
    problem = basket.problem
    bin = problem.bin_types[number]
    cpu_row, memory_row = _rows(problem, number)
    cpu = max(bin.rows[cpu_row].size, 1)
    memory = max(bin.rows[memory_row].size, 1)
    fitting = _Fitting(truth, [number])
    kinds = [kind for kind, n in enumerate(basket.unpacked) if n > 0 and bin.needs[kind] is not None]
    kinds.sort(key=lambda kind: (-(sizes[kind].cpu / cpu + sizes[kind].memory / memory), kind))
    most = min(basket.available(number), _AT_ONCE)
    runs: list[tuple[Load, int]] = []
    used = 0
    for kind in kinds:
        rest = basket.unpacked[kind]
        after: list[tuple[Load, int]] = []
        for load, count in runs:
            rest, parts = _spread(fitting, load, count, kind, rest)
            after += parts
        if rest > 0 and used < most and fitting.grown((), kind) is not None:
            room = most - used
            rest, parts = _spread(fitting, (), room, kind, rest)
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
    return _Option(
        number, nodes, used,
        sum(sizes[kind].cpu * n for kind, n in helped), sum(sizes[kind].memory * n for kind, n in helped),
        sum(n for _, n in helped),
    )  # fmt: skip


def _spread(fitting: _Fitting, load: Load, count: int, kind: int, rest: int) -> tuple[int, list[tuple[Load, int]]]:
    """Equal nodes, one after the other filled with a kind as far as it goes: what is left of it, and the nodes."""
    if not rest:
        return 0, [(load, count)]
    steps = [load]
    while len(steps) <= rest:
        more = fitting.grown(steps[-1], kind)
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


def _least_waste(basket: PartialSolution, option: _Option, sizes: Sequence[_Size]) -> float:
    bin = basket.problem.bin_types[option.number]
    cpu, memory = _rows(basket.problem, option.number)
    waste = 1 - option.cpu / max(bin.rows[cpu].size * option.count, 1)
    return waste + 1 - option.memory / max(bin.rows[memory].size * option.count, 1)


def _most_pods(basket: PartialSolution, option: _Option, sizes: Sequence[_Size]) -> float:
    return -float(option.items)


def _price(basket: PartialSolution, option: _Option, sizes: Sequence[_Size]) -> float:
    """Price of nodes by price of pods, and how far the node is from what a cluster of this size prefers."""
    bin = basket.problem.bin_types[option.number]
    stable = _CPU_PRICE * 0.5 + _MEMORY_PRICE * 500 / 1024
    pods = _CPU_PRICE * option.cpu / 1000 + _MEMORY_PRICE * option.memory / _GIB
    cpu, _ = _rows(basket.problem, option.number)
    cores = bin.rows[cpu].size / 1000
    nodes = sum(basket.bins.values())
    preferred = next((cores for most, cores in _PREFERRED if nodes <= most), 32)
    unfit = max(cores / preferred, preferred / max(cores, 1e-9))
    if any(row.name not in ("cpu", "memory", "pods") for row in bin.rows):
        unfit = 1000.0
    unfit = (unfit - 1) * (1 - tanh((option.count - 1) / 15)) + 1
    exists = any(number == option.number for number, _ in basket.bins)
    return (bin.price * option.count + stable) / (pods + stable) * unfit * (1 if exists else 2)


_EXPANDERS: dict[str, Callable[[PartialSolution, _Option, Sequence[_Size]], float]] = {
    "least-waste": _least_waste,
    "most-pods": _most_pods,
    "price": _price,
}
