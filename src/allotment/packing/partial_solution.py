"""What is bought so far: bins with loads, counted; and the limits that say whether one more may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from allotment.packing.problem import Load, PackedBins, Problem


class PartialSolution:
    """Bins by sort and load. Knows the cost, what is left to pack, and whether limits allow another bin."""

    def __init__(self, problem: Problem, counts: Sequence[int]) -> None:
        self.problem = problem
        self.unpacked = list(counts)
        self.cost = 0
        self.bins: dict[tuple[int, Load], int] = {}
        self._limits = dict(problem.group_limits)
        self._used: dict[int, int] = {}
        self._groups: dict[str, int] = {}

    def copy(self) -> PartialSolution:
        """One that changes by itself."""
        other = PartialSolution(self.problem, self.unpacked)
        other.cost = self.cost
        other.bins = dict(self.bins)
        other._used = dict(self._used)
        other._groups = dict(self._groups)
        return other

    def available(self, bin: int) -> int:
        """How many more of a sort its limits, those of its groups and the budget allow; a large number if any."""
        sort = self.problem.bin_types[bin]
        most = 1 << 62 if sort.max_count is None else sort.max_count - self._used.get(bin, 0)
        for group in sort.groups:
            if group in self._limits:
                most = min(most, self._limits[group] - self._groups.get(group, 0))
        if self.problem.budget is not None and sort.price:
            most = min(most, (self.problem.budget - self.cost) // sort.price)
        return max(most, 0)

    def add(self, bin: int, load: Load, count: int = 1) -> None:
        """Or give back, if ``count`` is negative. Items that are not left any more may be in the load too."""
        sort = self.problem.bin_types[bin]
        key = (bin, load)
        number = self.bins.get(key, 0) + count
        if number:
            self.bins[key] = number
        else:
            self.bins.pop(key, None)
        self.cost += sort.price * count
        self._used[bin] = self._used.get(bin, 0) + count
        for group in sort.groups:
            self._groups[group] = self._groups.get(group, 0) + count
        for kind, n in load:
            self.unpacked[kind] -= n * count

    def rank(self) -> tuple[int, int]:
        """Less is better: items without a place, then cost."""
        return (sum(n for n in self.unpacked if n > 0), self.cost)

    def packed_bins(self) -> Iterator[PackedBins]:
        """In a stable order."""
        for (bin, load), count in sorted(self.bins.items()):
            yield PackedBins(bin, load, count)
