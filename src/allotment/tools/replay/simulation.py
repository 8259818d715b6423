"""One run: the pods of a workload come one by one, a policy chooses, and what came of it is written down as a curve.

What a policy thinks of a state for a shape is asked once and kept, until the state is past; a placement makes at most
one new state. So a pod costs one look through a column of numbers, not one through all nodes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from allotment.tools.replay.fragmentation import Usable
from allotment.tools.replay.policies.policy import Candidates, Judge, Policy, Setting
from allotment.tools.replay.standing import Bools, Floats, Ints, Need, Standing, Way
from allotment.tools.replay.trace import TraceNode
from allotment.tools.replay.workload import Event, Shape, Workload, capacity_of

_WORST: Final = float("inf")


class Point(NamedTuple):
    """A moment of a run. All in thousandths of GPUs but ``nodes``: those on which there is any pod."""

    arrived: int
    """Asked for so far by pods that came."""
    running: int
    """Asked for by pods that came and have not gone."""
    allocated: int
    fragmented: float
    nodes: int


class Placement(NamedTuple):
    """Where a pod went, and which GPUs it got; node -1: nowhere."""

    node: int
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a run: a point for each step of ``arrived``, and where each pod went, by its number."""

    points: tuple[Point, ...]
    placements: tuple[Placement, ...]
    capacity: int


class _Row:
    """What a policy thinks of each state for one shape: its best option; infinite where the shape does not fit."""

    __slots__ = ("scores", "seen")

    def __init__(self) -> None:
        self.scores: Floats = np.full(1024, _WORST)
        self.seen = 0


class Simulation:
    """The nodes, the policy, and what has been worked out."""

    def __init__(self, workload: Workload, nodes: Sequence[TraceNode], policy: Policy, seed: int) -> None:
        self.workload = workload
        self.policy = policy
        self.standing = Standing(nodes, policy.ordered)
        self._chance = random.Random(seed)
        self._judge: Judge = policy.judge(Setting(workload, tuple(nodes), self.standing))
        self._rows: dict[Shape, _Row] = {}
        self._fitting: dict[Need, Bools] = {}
        self._on: dict[frozenset[str], Bools] = {}

    def place(self, shape: Shape) -> Placement:
        """Put one pod where the policy wants it, if it fits anywhere."""
        standing = self.standing
        row = self._row(shape)
        scores = np.where(standing.count[: standing.size] > 0, row.scores[: standing.size], _WORST)
        best = float(scores.min(initial=_WORST))
        if best == _WORST:
            return Placement(-1)
        equal: Ints = np.flatnonzero(scores == best)
        if self.policy.by_chance:
            node, way = self._any(shape, equal)
        else:
            state = int(equal[np.argmin(standing.first[equal])])
            node = int(standing.first[state])
            way = self._way(shape, state)
        return Placement(node, standing.take(node, shape, way))

    def _any(self, shape: Shape, equal: Ints) -> tuple[int, Way]:
        """Any node of equal states, any of its GPUs that will do."""
        standing = self.standing
        counts = np.cumsum(standing.count[equal])
        at = int(np.searchsorted(counts, self._chance.randrange(int(counts[-1])), side="right"))
        state = int(equal[at])
        nodes = standing.nodes_in(state)
        node = nodes[self._chance.randrange(len(nodes))]
        pattern = standing.patterns.values[standing.states[state].pattern]
        fitting = [place for place, free in enumerate(pattern) if free >= shape.milli]
        return node, tuple(sorted(self._chance.sample(fitting, shape.gpus))) if shape.gpus else ()

    def _way(self, shape: Shape, state: int) -> Way:
        """The best way to take what the shape needs on a node of a state."""
        if not shape.gpus:
            return ()
        ways = self.standing.patterns.ways(self.standing.states[state].pattern, Need(shape.gpus, shape.milli))
        if len(ways) == 1:
            return ways[0]
        candidates = self._candidates(shape, np.array([state]))
        return ways[int(np.argmin(self._judge(shape, candidates)))]

    # --- what the policy thinks ----------------------------------------------------------------------------------

    def _row(self, shape: Shape) -> _Row:
        """The shape's row, with the states that have come up since it was last looked at."""
        standing = self.standing
        row = self._rows.get(shape)
        if row is None:
            row = self._rows[shape] = _Row()
        if len(row.scores) < standing.size:
            row.scores = np.concatenate([row.scores, np.full(max(1024, standing.size), _WORST)])
        if row.seen < standing.size:
            states = row.seen + np.flatnonzero(standing.count[row.seen : standing.size])
            states = states[self._fits(shape, states)]
            if len(states):
                candidates = self._candidates(shape, states)
                scores = self._judge(shape, candidates)
                starts: Ints = np.flatnonzero(np.diff(candidates.state, prepend=-1))
                row.scores[states] = np.minimum.reduceat(scores, starts)
            row.seen = standing.size
        return row

    def _fits(self, shape: Shape, states: Ints) -> Bools:
        standing = self.standing
        fits: Bools = (standing.cpu[states] >= shape.cpu) & (standing.memory[states] >= shape.memory)
        if shape.gpus:
            fits &= self._accepted(shape.models)[standing.model[states]]
            fits &= self._enough(Need(shape.gpus, shape.milli))[standing.pattern[states]]
        if shape.per_node is not None:
            most = shape.per_node
            fits &= np.array([dict(standing.states[n].apps).get(shape.app, 0) < most for n in states], np.bool_)
        return fits

    def _accepted(self, models: frozenset[str]) -> Bools:
        found = self._on.get(models)
        if found is None:
            found = self._on[models] = np.array([not models or m in models for m in self.standing.models], np.bool_)
        return found

    def _enough(self, need: Need) -> Bools:
        """By pattern, whether there are GPUs enough."""
        known = self._fitting.get(need, np.zeros(0, np.bool_))
        values = self.standing.patterns.values
        if len(known) < len(values):
            new = [sum(free >= need.milli for free in left) >= need.gpus for left in values[len(known) :]]
            known = self._fitting[need] = np.concatenate([known, np.array(new, np.bool_)])
        return known

    def _candidates(self, shape: Shape, states: Ints) -> Candidates:
        """Every way to put the shape on nodes of these states."""
        standing = self.standing
        pattern = standing.pattern[states]
        if shape.gpus:
            need, patterns = Need(shape.gpus, shape.milli), standing.patterns
            after: list[int] = []
            counts: list[int] = []
            for number in pattern.tolist():
                ways = patterns.ways(number, need)
                counts.append(len(ways))
                after += [patterns.after(number, need, way) for way in ways]
            states = np.repeat(states, counts)
            pattern_after: Ints = np.array(after, np.int64)
        else:
            pattern_after = pattern
        return Candidates(states, standing.cpu[states] - shape.cpu, standing.memory[states] - shape.memory, pattern_after)


Progress = Callable[[Point], None]


def run(
    workload: Workload, shape_of: Sequence[int], events: Sequence[Event], nodes: Sequence[TraceNode], policy: Policy,
    seed: int, *, step: float = 0.01, progress: Progress | None = None,
) -> Run:  # fmt: skip
    """Replay events under a policy. A point is written down each ``step`` of the GPUs that was asked for.

    ``shape_of``: the shape of each pod by number. ``progress`` is told each point as it comes. Where nobody asks for
    GPUs there is one point, the last.
    """
    simulation = Simulation(workload, nodes, policy, seed)
    standing = simulation.standing
    weights = [count / max(sum(workload.counts), 1) for count in workload.counts]
    usable = Usable(workload.shapes, weights, standing.models, standing.patterns)
    capacity = capacity_of(nodes)
    alive = np.arange(standing.size)
    arrived = running = allocated = 0
    useful: list[float] = [0.0] * len(nodes)
    marks = usable(standing.model[alive], standing.cpu[alive], standing.memory[alive], standing.pattern[alive])
    for node, state in enumerate(standing.state_of):
        useful[node] = float(marks[state])
    total = sum(useful)
    pods_on = [0] * len(nodes)
    nodes_used = 0
    placements: list[Placement] = [Placement(-1)] * len(shape_of)
    points: list[Point] = []
    due = 0.0

    def note() -> None:
        point = Point(arrived, running, allocated, capacity - allocated - total, nodes_used)
        points.append(point)
        if progress is not None:
            progress(point)

    for event in events:
        shape = workload.shapes[shape_of[event.pod]]
        if event.comes:
            placement = simulation.place(shape)
            placements[event.pod] = placement
            arrived += shape.amount
            running += shape.amount
            sign = 1
        else:
            placement = placements[event.pod]
            running -= shape.amount
            sign = -1
            if placement.node >= 0:
                standing.give_back(placement.node, shape, placement.gpus)
        if placement.node >= 0:
            node = placement.node
            allocated += sign * shape.amount
            before = pods_on[node]
            pods_on[node] += sign
            nodes_used += (pods_on[node] > 0) - (before > 0)
            at = standing.state_of[node : node + 1]
            now = float(usable(standing.model[at], standing.cpu[at], standing.memory[at], standing.pattern[at])[0])
            total += now - useful[node]
            useful[node] = now
        if capacity and arrived >= due * capacity - 1e-6:
            note()
            due = (int(arrived / capacity / step + 1e-9) + 1) * step
    note()
    return Run(tuple(points), tuple(placements), capacity)
