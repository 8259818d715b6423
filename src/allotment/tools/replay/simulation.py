"""One replay run: the pods of a workload arrive and depart one by one; the result is a curve of allocation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from allotment.tools.replay.fragmentation import UsableCapacity
from allotment.tools.replay.node_states import Floats, Ints, NodeStates
from allotment.tools.replay.placement import UNPLACED, Placement, PodPlacer
from allotment.tools.replay.policies.policy import PlacementPolicy
from allotment.tools.replay.trace import TraceNode
from allotment.tools.replay.workload import PodEvent, PodShape, Workload, capacity_of

#: Number of points of a run with departures, whose progress is measured by events.
_STEPS: Final = 200


class RunPoint(NamedTuple):
    """A point of a run; amounts are in thousandths of GPUs.

    ``at``: progress as a fraction of all GPUs, or of all events. ``arrived``: total request of the pods that arrived;
    ``placed``: of those that were placed, including departed ones. ``nodes``: by node type, the number of nodes with
    pods.
    """

    at: float
    arrived: int
    placed: int
    allocated: int
    fragmented: float
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReplayRun:
    """The result of a run. ``placements``: by pod number. ``capacity``: of all GPUs, in thousandths.

    ``node_types``: model and number of GPUs, in the order of ``RunPoint.nodes``.
    """

    points: tuple[RunPoint, ...]
    placements: tuple[Placement, ...]
    capacity: int
    node_types: tuple[tuple[str, int], ...]


Progress = Callable[[RunPoint], None]


def run(
    workload: Workload, shape_of: Sequence[int], events: Sequence[PodEvent], nodes: Sequence[TraceNode], policy:
    PlacementPolicy, seed: int, *, step: float = 0.01, progress: Progress | None = None,
) -> ReplayRun:  # fmt: skip
    """Replay events under a policy.

    ``shape_of``: shape number by pod. There is a point for each ``step`` of requested GPUs, as a fraction of all; in
    runs with departures there are 200 points at equal numbers of events instead. ``progress`` is called with each
    point.
    """
    placer = PodPlacer(workload, nodes, policy, seed)
    totals = _ClusterTotals(workload, nodes, placer.states)
    placements: list[Placement] = [UNPLACED] * len(shape_of)
    points: list[RunPoint] = []
    has_departures = not all(event.arrives for event in events)
    unit, part = (len(events), 1 / _STEPS) if has_departures else (totals.capacity, step)

    def record_points(reached: int) -> None:
        # A large pod may reach several steps at once.
        while unit and reached >= round(len(points) * part * unit, 6):
            points.append(totals.point(round(len(points) * part, 6)))
            if progress is not None:
                progress(points[-1])

    record_points(0)
    for event_number, (pod, arrives) in enumerate(events, 1):
        shape = workload.shapes[shape_of[pod]]
        if arrives:
            placements[pod] = placer.place(shape)
        elif placements[pod].node >= 0:
            placer.states.release(placements[pod].node, shape, placements[pod].gpus)
        totals.book(shape, placements[pod].node, 1 if arrives else -1)
        record_points(event_number if has_departures else totals.arrived)
    return ReplayRun(tuple(points), tuple(placements), totals.capacity, totals.node_types)


class _ClusterTotals:
    """Totals over all nodes, updated for the node that changes."""

    def __init__(self, workload: Workload, nodes: Sequence[TraceNode], states: NodeStates) -> None:
        total = max(sum(workload.counts), 1)
        weights = [count / total for count in workload.counts]
        self.capacity = capacity_of(nodes)
        self.arrived = self._placed = self._allocated = 0
        self._states = states
        self._usable = UsableCapacity(workload.shapes, weights, states.models, states.patterns)
        numbers: dict[tuple[str, int], int] = {}
        self._node_type = [numbers.setdefault((node.model, node.gpus), len(numbers)) for node in nodes]
        self.node_types = tuple(numbers)
        self._used = [0] * len(numbers)
        self._pods = [0] * len(nodes)
        by_state = self._useful(np.arange(states.size))
        self._useful_on = [float(by_state[state]) for state in states.state_of]
        self._useful_all = sum(self._useful_on)

    def book(self, shape: PodShape, node: int, sign: int) -> None:
        """Update the totals after a pod arrived on a node (-1: unplaced) or departed from it."""
        self.arrived += shape.amount if sign > 0 else 0
        if node < 0:
            return
        self._placed += shape.amount if sign > 0 else 0
        self._allocated += sign * shape.amount
        before = self._pods[node]
        self._pods[node] += sign
        self._used[self._node_type[node]] += (self._pods[node] > 0) - (before > 0)
        useful = float(self._useful(np.array([self._states.state_of[node]]))[0])
        self._useful_all += useful - self._useful_on[node]
        self._useful_on[node] = useful

    def point(self, at: float) -> RunPoint:
        """The point with the current totals."""
        fragmented = max(self.capacity - self._allocated - self._useful_all, 0.0)
        return RunPoint(at, self.arrived, self._placed, self._allocated, fragmented, tuple(self._used))

    def _useful(self, states: Ints) -> Floats:
        node_states = self._states
        return self._usable(
            node_states.model[states], node_states.cpu[states], node_states.memory[states], node_states.pattern[states]
        )
