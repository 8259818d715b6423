"""The states of a trace's nodes: identical nodes share one state, stored in numeric columns.

A fleet of a thousand nodes has about a hundred different states at a time. A placement moves one node from one state to
another, so that results computed for other states stay valid. A state without nodes is dropped; an equal state gets a
new number later. Numbers only grow, and the columns of a number never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allotment.tools.replay.trace import WHOLE, TraceNode
from allotment.tools.replay.workload import PodShape

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: The memory of a node whose memory is unknown: it fits every pod.
UNKNOWN_MEMORY: Final = 1 << 50
_NO_NODE: Final = 1 << 40


class RemainingCapacity(NamedTuple):
    """The remaining capacity of a node. ``pattern``: the GPU pattern number; ``apps``: pods of limited applications."""

    model: int
    cpu: int
    memory: int
    pattern: int
    apps: tuple[tuple[str, int], ...] = ()


class GpuRequest(NamedTuple):
    """The GPU request of a shape: a number of GPUs, and thousandths of each."""

    gpus: int
    milli: int


#: Indices of GPUs in a pattern.
GpuSelection = tuple[int, ...]


class GpuPatterns:
    """Patterns of idle GPU capacity by number, and the possible selections of GPUs for a request.

    ``ordered``: the order of GPUs matters; otherwise patterns are sorted, so that nodes that differ only in the order
    are equal.
    """

    def __init__(self, ordered: bool) -> None:
        self.ordered = ordered
        self.values: list[tuple[int, ...]] = []
        self.idle: Ints = np.zeros(1024, np.int64)
        """By pattern, the total idle capacity of its GPUs."""
        self._numbers: dict[tuple[int, ...], int] = {}
        self._selections: dict[GpuRequest, dict[int, tuple[GpuSelection, ...]]] = {}
        self._after: dict[tuple[int, GpuRequest, GpuSelection], int] = {}

    def number(self, free: tuple[int, ...]) -> int:
        """The pattern's number."""
        key = free if self.ordered else tuple(sorted(free))
        result = self._numbers.get(key)
        if result is None:
            result = self._numbers[key] = len(self.values)
            if result == len(self.idle):
                self.idle = np.concatenate([self.idle, np.zeros_like(self.idle)])
            self.idle[result] = sum(key)
            self.values.append(key)
        return result

    def selections(self, number: int, request: GpuRequest) -> tuple[GpuSelection, ...]:
        """The distinct selections of GPUs for a request, the tightest first.

        If the order of the GPUs matters, the only selection is the first GPUs that fit.
        """
        known = self._selections.setdefault(request, {})
        result = known.get(number)
        if result is None:
            result = known[number] = tuple(self._find_selections(self.values[number], request))
        return result

    def _find_selections(self, free: tuple[int, ...], request: GpuRequest) -> list[GpuSelection]:
        fitting = [index for index, milli in enumerate(free) if milli >= request.milli]
        if len(fitting) < request.gpus:
            return []
        if self.ordered or request.gpus != 1:
            return [tuple(fitting[: request.gpus])]
        return [(index,) for n, index in enumerate(fitting) if n == 0 or free[index] != free[fitting[n - 1]]]

    def after(self, number: int, request: GpuRequest, selection: GpuSelection) -> int:
        """The pattern after allocating the selection."""
        key = (number, request, selection)
        result = self._after.get(key)
        if result is None:
            free = list(self.values[number])
            for index in selection:
                free[index] -= request.milli
            result = self._after[key] = self.number(tuple(free))
        return result


class NodeStates:
    """The nodes by state. Columns have a row for every state that ever existed; ``count`` is 0 for dropped ones."""

    def __init__(self, nodes: Sequence[TraceNode], ordered: bool = False) -> None:
        self.patterns = GpuPatterns(ordered)
        self.state_of: list[int] = []
        """State number by node."""
        self.left: list[list[int]] = []
        """By node, the idle capacity of each GPU."""
        self.states: list[RemainingCapacity] = []
        self.size = 0
        self.cpu, self.memory = _column(), _column()
        self.model, self.pattern = _column(), _column()
        self.count, self.first = _column(), _column()
        self._current: dict[RemainingCapacity, int] = {}
        self._members: list[list[int]] = []
        """By state, a heap of its nodes, which may contain nodes that left the state."""
        numbers: dict[str, int] = {}
        for index, node in enumerate(nodes):
            memory = UNKNOWN_MEMORY if node.memory_mib is None else node.memory_mib
            free = [WHOLE] * node.gpus
            model = numbers.setdefault(node.model, len(numbers))
            self.left.append(free)
            self.state_of.append(-1)
            self._enter(index, RemainingCapacity(model, node.cpu_milli, memory, self.patterns.number(tuple(free))))
        self.models = tuple(numbers)

    def take(self, node: int, shape: PodShape, selection: GpuSelection) -> tuple[int, ...]:
        """Place a pod on a node; returns the indices of its GPUs on the node."""
        capacity = self.states[self.state_of[node]]
        free = self.left[node]
        gpus = (
            selection
            if self.patterns.ordered
            else self._gpus_matching(free, self.patterns.values[capacity.pattern], selection)
        )
        for index in gpus:
            free[index] -= shape.milli
        pattern = (
            self.patterns.after(capacity.pattern, GpuRequest(shape.gpus, shape.milli), selection)
            if selection
            else capacity.pattern
        )
        apps = _updated_apps(capacity.apps, shape, 1)
        self._move(
            node,
            RemainingCapacity(capacity.model, capacity.cpu - shape.cpu, capacity.memory - shape.memory, pattern, apps),
        )
        return gpus

    def release(self, node: int, shape: PodShape, gpus: tuple[int, ...]) -> None:
        """Remove a pod from a node and these GPUs."""
        capacity = self.states[self.state_of[node]]
        free = self.left[node]
        for index in gpus:
            free[index] += shape.milli
        pattern = self.patterns.number(tuple(free)) if gpus else capacity.pattern
        apps = _updated_apps(capacity.apps, shape, -1)
        self._move(
            node,
            RemainingCapacity(capacity.model, capacity.cpu + shape.cpu, capacity.memory + shape.memory, pattern, apps),
        )

    def nodes_in_state(self, capacity: int) -> list[int]:
        """The nodes in a state, in ascending order."""
        return sorted({node for node in self._members[capacity] if self.state_of[node] == capacity})

    @staticmethod
    def _gpus_matching(free: list[int], pattern: tuple[int, ...], selection: GpuSelection) -> tuple[int, ...]:
        """The indices of GPUs with the idle capacities of the selected ones in the pattern."""
        result: list[int] = []
        for position in selection:
            index = free.index(pattern[position])
            while index in result:
                index = free.index(pattern[position], index + 1)
            result.append(index)
        return tuple(result)

    # --- states --------------------------------------------------------------------------------------------------

    def _move(self, node: int, capacity: RemainingCapacity) -> None:
        before = self.state_of[node]
        self._enter(node, capacity)
        self.count[before] -= 1
        if not self.count[before]:
            del self._current[self.states[before]]
            return
        members = self._members[before]
        while self.state_of[members[0]] != before:
            heappop(members)
        self.first[before] = members[0]

    def _enter(self, node: int, capacity: RemainingCapacity) -> None:
        number = self._current.get(capacity)
        if number is None:
            number = self._current[capacity] = self._add_state(capacity)
        self.state_of[node] = number
        heappush(self._members[number], node)
        self.count[number] += 1
        self.first[number] = min(int(self.first[number]), node)

    def _add_state(self, capacity: RemainingCapacity) -> int:
        if self.size == len(self.cpu):
            for name in ("cpu", "memory", "model", "pattern", "count", "first"):
                column: Ints = getattr(self, name)
                setattr(self, name, np.concatenate([column, np.zeros_like(column)]))
        number = self.size
        self.cpu[number], self.memory[number] = capacity.cpu, capacity.memory
        self.model[number], self.pattern[number] = capacity.model, capacity.pattern
        self.first[number] = _NO_NODE
        self.states.append(capacity)
        self._members.append([])
        self.size += 1
        return number


def _column() -> Ints:
    return np.zeros(1024, np.int64)


def _updated_apps(apps: tuple[tuple[str, int], ...], shape: PodShape, amount: int) -> tuple[tuple[str, int], ...]:
    if shape.per_node is None:
        return apps
    counts = dict(apps)
    counts[shape.app] = counts.get(shape.app, 0) + amount
    return tuple(sorted((app, count) for app, count in counts.items() if count))
