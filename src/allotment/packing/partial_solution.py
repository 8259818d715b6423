"""The state of a construction: counted bins with their loads, the unpacked items, and the limits on further bins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from allotment.packing.problem import Load, PackedBins, Problem


class PartialSolution:
    """Bins by type and load. ``unpacked``: items left by kind, below 0 where bins have room for more than there are."""

    def __init__(self, problem: Problem, counts: Sequence[int]) -> None:
        self.problem = problem
        self.unpacked = list(counts)
        self.cost = 0
        self.bins: dict[tuple[int, Load], int] = {}
        self._limits = dict(problem.group_limits)
        self._used: dict[int, int] = {}
        self._groups: dict[str, int] = {}

    def copy(self) -> PartialSolution:
        """An independent copy."""
        other = PartialSolution(self.problem, self.unpacked)
        other.cost = self.cost
        other.bins = dict(self.bins)
        other._used = dict(self._used)
        other._groups = dict(self._groups)
        return other

    def available(self, number: int) -> int:
        """The number of further bins that a type's limit, its groups' limits and the budget allow; at most 2**62."""
        bin_type = self.problem.bin_types[number]
        most = 1 << 62 if bin_type.max_count is None else bin_type.max_count - self._used.get(number, 0)
        for group in bin_type.groups:
            if group in self._limits:
                most = min(most, self._limits[group] - self._groups.get(group, 0))
        if self.problem.budget is not None and bin_type.price:
            most = min(most, (self.problem.budget - self.cost) // bin_type.price)
        return max(most, 0)

    def add(self, number: int, load: Load, count: int = 1) -> None:
        """Add ``count`` bins, or remove them if it is negative. The load may hold more items than are unpacked."""
        bin_type = self.problem.bin_types[number]
        key = (number, load)
        total = self.bins.get(key, 0) + count
        if total:
            self.bins[key] = total
        else:
            self.bins.pop(key, None)
        self.cost += bin_type.price * count
        self._used[number] = self._used.get(number, 0) + count
        for group in bin_type.groups:
            self._groups[group] = self._groups.get(group, 0) + count
        for kind, n in load:
            self.unpacked[kind] -= n * count

    def rank(self) -> tuple[int, int]:
        """The number of unpacked items, then the cost; smaller is better."""
        return (sum(n for n in self.unpacked if n > 0), self.cost)

    def packed_counts(self) -> list[int]:
        """Items by kind that are in a bin."""
        return [count - max(rest, 0) for count, rest in zip(self.problem.counts, self.unpacked, strict=True)]

    def packed_bins(self) -> Iterator[PackedBins]:
        """The bins in a stable order."""
        for (number, load), count in sorted(self.bins.items()):
            yield PackedBins(number, load, count)
