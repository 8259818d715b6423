"""How the nodes stand: equal nodes are one state, with a column of numbers for each thing that matters.

A fleet of a thousand nodes has some hundred different states at a time. Each placement takes one node out of a state
and puts it into another, so that what is known of the others stays true. A state that no node is in any more is
forgotten; when one like it comes again it is a new one: numbers only grow, and what was worked out up to a number
never changes.
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

#: Memory of a node that does not say how much it has: it keeps nobody away.
UNKNOWN_MEMORY: Final = 1 << 50
_NO_NODE: Final = 1 << 40


class RemainingCapacity(NamedTuple):
    """What a node has left. ``pattern``: of its GPUs, by number; ``apps``: how many pods of limited applications."""

    model: int
    cpu: int
    memory: int
    pattern: int
    apps: tuple[tuple[str, int], ...] = ()


class GpuRequest(NamedTuple):
    """What a shape takes of GPUs: so many, and so much of each."""

    gpus: int
    milli: int


#: GPUs by their place in a pattern.
GpuSelection = tuple[int, ...]


class GpuPatterns:
    """What the GPUs of a node have left, by number, and in which ways something can be taken of them.

    ``ordered``: which GPU it is matters; otherwise nodes that differ only in that are alike, and patterns are sorted.
    """

    def __init__(self, ordered: bool) -> None:
        self.ordered = ordered
        self.values: list[tuple[int, ...]] = []
        self.idle: Ints = np.zeros(1024, np.int64)
        """By pattern, what all of its GPUs have left together."""
        self._numbers: dict[tuple[int, ...], int] = {}
        self._selections: dict[GpuRequest, dict[int, tuple[GpuSelection, ...]]] = {}
        self._after: dict[tuple[int, GpuRequest, GpuSelection], int] = {}

    def number(self, left: tuple[int, ...]) -> int:
        """The pattern's number."""
        key = left if self.ordered else tuple(sorted(left))
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.values)
            if found == len(self.idle):
                self.idle = np.concatenate([self.idle, np.zeros_like(self.idle)])
            self.idle[found] = sum(key)
            self.values.append(key)
        return found

    def selections(self, number: int, need: GpuRequest) -> tuple[GpuSelection, ...]:
        """The ways to take what is needed; of ways that are alike one; the tightest first.

        Where the order of the GPUs matters there is one: the first that will do.
        """
        known = self._selections.setdefault(need, {})
        found = known.get(number)
        if found is None:
            found = known[number] = tuple(self._find_selections(self.values[number], need))
        return found

    def _find_selections(self, left: tuple[int, ...], need: GpuRequest) -> list[GpuSelection]:
        fitting = [place for place, free in enumerate(left) if free >= need.milli]
        if len(fitting) < need.gpus:
            return []
        if self.ordered or need.gpus != 1:
            return [tuple(fitting[: need.gpus])]
        return [(place,) for n, place in enumerate(fitting) if n == 0 or left[place] != left[fitting[n - 1]]]

    def after(self, number: int, need: GpuRequest, way: GpuSelection) -> int:
        """The pattern when that was taken."""
        key = (number, need, way)
        found = self._after.get(key)
        if found is None:
            left = list(self.values[number])
            for place in way:
                left[place] -= need.milli
            found = self._after[key] = self.number(tuple(left))
        return found


class NodeStates:
    """The nodes by state. Columns have a row for each state that there ever was; ``count`` is 0 where it is past."""

    def __init__(self, nodes: Sequence[TraceNode], ordered: bool = False) -> None:
        self.patterns = GpuPatterns(ordered)
        self.state_of: list[int] = []
        """By node, its state."""
        self.left: list[list[int]] = []
        """By node, what each of its GPUs has left."""
        self.states: list[RemainingCapacity] = []
        self.size = 0
        self.cpu, self.memory = _column(), _column()
        self.model, self.pattern = _column(), _column()
        self.count, self.first = _column(), _column()
        self._current: dict[RemainingCapacity, int] = {}
        self._members: list[list[int]] = []
        """By state, its nodes as a heap, and some that have left."""
        numbers: dict[str, int] = {}
        for place, node in enumerate(nodes):
            memory = UNKNOWN_MEMORY if node.memory_mib is None else node.memory_mib
            left = [WHOLE] * node.gpus
            model = numbers.setdefault(node.model, len(numbers))
            self.left.append(left)
            self.state_of.append(-1)
            self._enter(place, RemainingCapacity(model, node.cpu_milli, memory, self.patterns.number(tuple(left))))
        self.models = tuple(numbers)

    def take(self, node: int, shape: PodShape, way: GpuSelection) -> tuple[int, ...]:
        """Put a pod on a node; the GPUs that it got, by their place on the node."""
        state = self.states[self.state_of[node]]
        left = self.left[node]
        places = way if self.patterns.ordered else self._gpus_matching(left, self.patterns.values[state.pattern], way)
        for place in places:
            left[place] -= shape.milli
        pattern = self.patterns.after(state.pattern, GpuRequest(shape.gpus, shape.milli), way) if way else state.pattern
        apps = _updated_apps(state.apps, shape, 1)
        self._move(node, RemainingCapacity(state.model, state.cpu - shape.cpu, state.memory - shape.memory, pattern, apps))
        return places

    def release(self, node: int, shape: PodShape, places: tuple[int, ...]) -> None:
        """A pod goes, from these GPUs."""
        state = self.states[self.state_of[node]]
        left = self.left[node]
        for place in places:
            left[place] += shape.milli
        pattern = self.patterns.number(tuple(left)) if places else state.pattern
        apps = _updated_apps(state.apps, shape, -1)
        self._move(node, RemainingCapacity(state.model, state.cpu + shape.cpu, state.memory + shape.memory, pattern, apps))

    def nodes_in_state(self, state: int) -> list[int]:
        """The nodes in a state, in order."""
        return sorted({node for node in self._members[state] if self.state_of[node] == state})

    @staticmethod
    def _gpus_matching(left: list[int], pattern: tuple[int, ...], way: GpuSelection) -> tuple[int, ...]:
        """The GPUs that have just as much left as those of the pattern."""
        found: list[int] = []
        for at in way:
            place = left.index(pattern[at])
            while place in found:
                place = left.index(pattern[at], place + 1)
            found.append(place)
        return tuple(found)

    # --- states --------------------------------------------------------------------------------------------------

    def _move(self, node: int, state: RemainingCapacity) -> None:
        before = self.state_of[node]
        self._enter(node, state)
        self.count[before] -= 1
        if not self.count[before]:
            del self._current[self.states[before]]
            return
        members = self._members[before]
        while self.state_of[members[0]] != before:
            heappop(members)
        self.first[before] = members[0]

    def _enter(self, node: int, state: RemainingCapacity) -> None:
        number = self._current.get(state)
        if number is None:
            number = self._current[state] = self._add_state(state)
        self.state_of[node] = number
        heappush(self._members[number], node)
        self.count[number] += 1
        self.first[number] = min(int(self.first[number]), node)

    def _add_state(self, state: RemainingCapacity) -> int:
        if self.size == len(self.cpu):
            for name in ("cpu", "memory", "model", "pattern", "count", "first"):
                column: Ints = getattr(self, name)
                setattr(self, name, np.concatenate([column, np.zeros_like(column)]))
        number = self.size
        self.cpu[number], self.memory[number] = state.cpu, state.memory
        self.model[number], self.pattern[number] = state.model, state.pattern
        self.first[number] = _NO_NODE
        self.states.append(state)
        self._members.append([])
        self.size += 1
        return number


def _column() -> Ints:
    return np.zeros(1024, np.int64)


def _updated_apps(apps: tuple[tuple[str, int], ...], shape: PodShape, by: int) -> tuple[tuple[str, int], ...]:
    if shape.per_node is None:
        return apps
    counts = dict(apps)
    counts[shape.app] = counts.get(shape.app, 0) + by
    return tuple(sorted((app, count) for app, count in counts.items() if count))
