"""Where the next pod goes: what a policy thinks of each state is asked once per shape, and the best is looked up.

A placement makes at most one new state, so a pod costs one look through a column of numbers and not one through all
nodes; only states that came up since a shape was last there are shown to the policy.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from allotment.tools.replay.node_states import Bools, Floats, GpuRequest, GpuSelection, Ints, NodeStates
from allotment.tools.replay.policies.policy import Candidates, PlacementPolicy, PolicyContext
from allotment.tools.replay.trace import TraceNode
from allotment.tools.replay.workload import PodShape, Workload

_IMPOSSIBLE: Final = float("inf")


class Placement(NamedTuple):
    """Where a pod went, and which of the node's GPUs it got; node -1: nowhere."""

    node: int
    gpus: tuple[int, ...] = ()


UNPLACED: Final = Placement(-1)


class _CostColumn:
    """For one shape the cost of its best way on each state up to ``seen``; infinite where there is none."""

    __slots__ = ("costs", "seen")

    def __init__(self) -> None:
        self.costs: Floats = np.full(1024, _IMPOSSIBLE)
        self.seen = 0


class PodPlacer:
    """Places pods on nodes as a policy wants it. ``seed`` is that of policies that leave something to chance."""

    def __init__(self, workload: Workload, nodes: Sequence[TraceNode], policy: PlacementPolicy, seed: int) -> None:
        self.states = NodeStates(nodes, policy.is_ordered)
        self._is_random = policy.is_random
        self._random = random.Random(seed)
        self._cost_function = policy.cost_function(PolicyContext(workload, tuple(nodes), self.states))
        self._rows: dict[PodShape, _CostColumn] = {}
        self._sufficient: dict[GpuRequest, Bools] = {}
        self._accepted: dict[frozenset[str], Bools] = {}

    def place(self, shape: PodShape) -> Placement:
        """Put one pod where the policy wants it, if it fits anywhere."""
        standing = self.states
        row = self._row(shape)
        costs = np.where(standing.count[: standing.size] > 0, row.costs[: standing.size], _IMPOSSIBLE)
        least = costs.min(initial=_IMPOSSIBLE)
        if least == _IMPOSSIBLE:
            return UNPLACED
        equal: Ints = np.flatnonzero(costs == least)
        if self._is_random:
            node, way = self._random_node(shape, equal)
        else:
            state = int(equal[np.argmin(standing.first[equal])])
            node, way = int(standing.first[state]), self._best_selection(shape, state)
        return Placement(node, standing.take(node, shape, way))

    def _random_node(self, shape: PodShape, equal: Ints) -> tuple[int, GpuSelection]:
        """Any node of these states, and any of its GPUs that will do."""
        standing = self.states
        counts = np.cumsum(standing.count[equal])
        drawn = self._random.randrange(int(counts[-1]))
        state = int(equal[np.searchsorted(counts, drawn, side="right")])
        nodes = standing.nodes_in_state(state)
        node = nodes[self._random.randrange(len(nodes))]
        left = standing.patterns.values[standing.states[state].pattern]
        fitting = [place for place, free in enumerate(left) if free >= shape.milli]
        return node, tuple(sorted(self._random.sample(fitting, shape.gpus)))

    def _best_selection(self, shape: PodShape, state: int) -> GpuSelection:
        """Of the ways to take what the shape needs on a node of a state the best, of equals the tightest."""
        if not shape.gpus:
            return ()
        patterns = self.states.patterns
        ways = patterns.selections(self.states.states[state].pattern, GpuRequest(shape.gpus, shape.milli))
        if len(ways) == 1:
            return ways[0]
        return ways[int(np.argmin(self._cost_function(shape, self._candidates(shape, np.array([state])))))]

    # --- what the policy thinks ----------------------------------------------------------------------------------

    def _row(self, shape: PodShape) -> _CostColumn:
        """The shape's row, with the states that have come up since it was last looked at."""
        standing = self.states
        row = self._rows.get(shape)
        if row is None:
            row = self._rows[shape] = _CostColumn()
        if len(row.costs) < standing.size:
            row.costs = np.concatenate([row.costs, np.full(standing.size, _IMPOSSIBLE)])
        if row.seen < standing.size:
            states = row.seen + np.flatnonzero(standing.count[row.seen : standing.size])
            states = states[self._fits(shape, states)]
            if len(states):
                candidates = self._candidates(shape, states)
                starts: Ints = np.flatnonzero(np.diff(candidates.state, prepend=-1))
                row.costs[states] = np.minimum.reduceat(self._cost_function(shape, candidates), starts)
            row.seen = standing.size
        return row

    def _fits(self, shape: PodShape, states: Ints) -> Bools:
        standing = self.states
        fits: Bools = (standing.cpu[states] >= shape.cpu) & (standing.memory[states] >= shape.memory)
        if shape.gpus:
            fits &= self._accepted_models(shape.models)[standing.model[states]]
            fits &= self._sufficient_patterns(GpuRequest(shape.gpus, shape.milli))[standing.pattern[states]]
        if shape.per_node is not None:
            most = shape.per_node
            fits &= np.array([dict(standing.states[n].apps).get(shape.app, 0) < most for n in states], np.bool_)
        return fits

    def _accepted_models(self, accepted: frozenset[str]) -> Bools:
        """By model, whether it is accepted."""
        found = self._accepted.get(accepted)
        if found is None:
            models = [not accepted or model in accepted for model in self.states.models]
            found = self._accepted[accepted] = np.array(models, np.bool_)
        return found

    def _sufficient_patterns(self, need: GpuRequest) -> Bools:
        """By pattern, whether there are GPUs enough."""
        known = self._sufficient.get(need, np.zeros(0, np.bool_))
        values = self.states.patterns.values
        if len(known) < len(values):
            new = [sum(free >= need.milli for free in left) >= need.gpus for left in values[len(known) :]]
            known = self._sufficient[need] = np.concatenate([known, np.array(new, np.bool_)])
        return known

    def _candidates(self, shape: PodShape, states: Ints) -> Candidates:
        """Every way to put the shape on nodes of these states."""
        standing = self.states
        after = standing.pattern[states]
        if shape.gpus:
            need, patterns = GpuRequest(shape.gpus, shape.milli), standing.patterns
            ways = [(number, patterns.selections(number, need)) for number in after.tolist()]
            states = np.repeat(states, [len(each) for _, each in ways])
            after = np.array([patterns.after(number, need, way) for number, each in ways for way in each], np.int64)
        return Candidates(states, standing.cpu[states] - shape.cpu, standing.memory[states] - shape.memory, after)
