"""One run: the pods of a workload come and go one by one, and what came of it is written down as a curve."""

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

#: Points of a run in which pods go, where what arrived does not tell how far it is.
_STEPS: Final = 200


class RunPoint(NamedTuple):
    """A moment of a run, in thousandths of GPUs.

    ``at``: the step that was reached, as a part of all GPUs, or of all events. ``arrived``: what pods asked for that
    came so far; ``placed``: of those that found a place, whether they have gone or not. ``nodes``: how many of each
    sort (by number) have any pod.
    """

    at: float
    arrived: int
    placed: int
    allocated: int
    fragmented: float
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReplayRun:
    """What came of a run: its points, and where each pod went, by its number. ``capacity``: all GPUs, in thousandths.

    ``sorts``: model and GPUs of the nodes that points count.
    """

    points: tuple[RunPoint, ...]
    placements: tuple[Placement, ...]
    capacity: int
    node_types: tuple[tuple[str, int], ...]


Progress = Callable[[RunPoint], None]


def run(
    workload: Workload, shape_of: Sequence[int], events: Sequence[PodEvent], nodes: Sequence[TraceNode], policy: PlacementPolicy,
    seed: int, *, step: float = 0.01, progress: Progress | None = None,
) -> ReplayRun:  # fmt: skip
    """Replay events under a policy.

    ``shape_of``: the shape of each pod by number. There is a point for each ``step`` of the GPUs, from nothing to all
    that was asked for: how things stood when that was reached; where pods go there are two hundred equal parts of the
    events instead. ``progress`` is told of each as it comes.
    """
    chooser = PodPlacer(workload, nodes, policy, seed)
    account = _ClusterTotals(workload, nodes, chooser.states)
    placements: list[Placement] = [UNPLACED] * len(shape_of)
    points: list[RunPoint] = []
    goes = not all(event.arrives for event in events)
    unit, part = (len(events), 1 / _STEPS) if goes else (account.capacity, step)

    def note(so_far: int) -> None:
        # A large pod may reach several steps at once.
        while unit and so_far >= round(len(points) * part * unit, 6):
            points.append(account.point(round(len(points) * part, 6)))
            if progress is not None:
                progress(points[-1])

    note(0)
    for done, (pod, comes) in enumerate(events, 1):
        shape = workload.shapes[shape_of[pod]]
        if comes:
            placements[pod] = chooser.place(shape)
        elif placements[pod].node >= 0:
            chooser.states.release(placements[pod].node, shape, placements[pod].gpus)
        account.book(shape, placements[pod].node, 1 if comes else -1)
        note(done if goes else account.arrived)
    return ReplayRun(tuple(points), tuple(placements), account.capacity, account.sorts)


class _ClusterTotals:
    """Sums over all nodes, mended for the one that changes."""

    def __init__(self, workload: Workload, nodes: Sequence[TraceNode], standing: NodeStates) -> None:
        total = max(sum(workload.counts), 1)
        weights = [count / total for count in workload.counts]
        self.capacity = capacity_of(nodes)
        self.arrived = self._placed = self._allocated = 0
        self._standing = standing
        self._usable = UsableCapacity(workload.shapes, weights, standing.models, standing.patterns)
        numbers: dict[tuple[str, int], int] = {}
        self._sort = [numbers.setdefault((node.model, node.gpus), len(numbers)) for node in nodes]
        self.sorts = tuple(numbers)
        self._used = [0] * len(numbers)
        self._pods = [0] * len(nodes)
        by_state = self._useful(np.arange(standing.size))
        self._useful_on = [float(by_state[state]) for state in standing.state_of]
        self._useful_all = sum(self._useful_on)

    def book(self, shape: PodShape, node: int, sign: int) -> None:
        """A pod has come to a node (or to none, -1), or gone from it."""
        self.arrived += shape.amount if sign > 0 else 0
        if node < 0:
            return
        self._placed += shape.amount if sign > 0 else 0
        self._allocated += sign * shape.amount
        before = self._pods[node]
        self._pods[node] += sign
        self._used[self._sort[node]] += (self._pods[node] > 0) - (before > 0)
        useful = float(self._useful(np.array([self._standing.state_of[node]]))[0])
        self._useful_all += useful - self._useful_on[node]
        self._useful_on[node] = useful

    def point(self, at: float) -> RunPoint:
        """How things stand when a step is reached."""
        fragmented = max(self.capacity - self._allocated - self._useful_all, 0.0)
        return RunPoint(at, self.arrived, self._placed, self._allocated, fragmented, tuple(self._used))

    def _useful(self, states: Ints) -> Floats:
        standing = self._standing
        return self._usable(
            standing.model[states], standing.cpu[states], standing.memory[states], standing.pattern[states]
        )
