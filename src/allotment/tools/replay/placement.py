"""Places pods by a policy. The policy's cost of each state is computed once per shape and cached in a column.

A placement adds at most one new state, so that placing a pod costs one search through a column instead of all nodes.
The policy is evaluated only for states that appeared since the shape was last placed.
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
    """The node of a pod, -1 if it is unplaced, and the indices of its GPUs on the node."""

    node: int
    gpus: tuple[int, ...] = ()


UNPLACED: Final = Placement(-1)


class _CostColumn:
    """For one shape, the cost of its best selection on each state below ``seen``; infinite if it does not fit."""

    __slots__ = ("costs", "seen")

    def __init__(self) -> None:
        self.costs: Floats = np.full(1024, _IMPOSSIBLE)
        self.seen = 0


class PodPlacer:
    """Places pods on nodes by a policy. ``seed``: for random policies."""

    def __init__(self, workload: Workload, nodes: Sequence[TraceNode], policy: PlacementPolicy, seed: int) -> None:
        self.states = NodeStates(nodes, policy.is_ordered)
        self._is_random = policy.is_random
        self._random = random.Random(seed)
        self._cost_function = policy.cost_function(PolicyContext(workload, tuple(nodes), self.states))
        self._rows: dict[PodShape, _CostColumn] = {}
        self._sufficient: dict[GpuRequest, Bools] = {}
        self._accepted: dict[frozenset[str], Bools] = {}

    def place(self, shape: PodShape) -> Placement:
        """Place a pod on the node with the lowest cost; `UNPLACED` if it fits none."""
        states = self.states
        column = self._row(shape)
        costs = np.where(states.count[: states.size] > 0, column.costs[: states.size], _IMPOSSIBLE)
        least = costs.min(initial=_IMPOSSIBLE)
        if least == _IMPOSSIBLE:
            return UNPLACED
        equal: Ints = np.flatnonzero(costs == least)
        if self._is_random:
            node, selection = self._random_node(shape, equal)
        else:
            state = int(equal[np.argmin(states.first[equal])])
            node, selection = int(states.first[state]), self._best_selection(shape, state)
        return Placement(node, states.take(node, shape, selection))

    def _random_node(self, shape: PodShape, equal: Ints) -> tuple[int, GpuSelection]:
        """A random node of these states, and random GPUs of it that fit."""
        states = self.states
        counts = np.cumsum(states.count[equal])
        drawn = self._random.randrange(int(counts[-1]))
        state = int(equal[np.searchsorted(counts, drawn, side="right")])
        nodes = states.nodes_in_state(state)
        node = nodes[self._random.randrange(len(nodes))]
        free = states.patterns.values[states.states[state].pattern]
        fitting = [index for index, milli in enumerate(free) if milli >= shape.milli]
        return node, tuple(sorted(self._random.sample(fitting, shape.gpus)))

    def _best_selection(self, shape: PodShape, state: int) -> GpuSelection:
        """The selection of GPUs with the lowest cost on a node of a state; the tightest of equal ones."""
        if not shape.gpus:
            return ()
        patterns = self.states.patterns
        selections = patterns.selections(self.states.states[state].pattern, GpuRequest(shape.gpus, shape.milli))
        if len(selections) == 1:
            return selections[0]
        return selections[int(np.argmin(self._cost_function(shape, self._candidates(shape, np.array([state])))))]

    # --- costs ---------------------------------------------------------------------------------------------------

    def _row(self, shape: PodShape) -> _CostColumn:
        """The shape's cost column, updated with the states that appeared since its last use."""
        states = self.states
        column = self._rows.get(shape)
        if column is None:
            column = self._rows[shape] = _CostColumn()
        if len(column.costs) < states.size:
            column.costs = np.concatenate([column.costs, np.full(states.size, _IMPOSSIBLE)])
        if column.seen < states.size:
            state_numbers = column.seen + np.flatnonzero(states.count[column.seen : states.size])
            state_numbers = state_numbers[self._fits(shape, state_numbers)]
            if len(state_numbers):
                candidates = self._candidates(shape, state_numbers)
                starts: Ints = np.flatnonzero(np.diff(candidates.state, prepend=-1))
                column.costs[state_numbers] = np.minimum.reduceat(self._cost_function(shape, candidates), starts)
            column.seen = states.size
        return column

    def _fits(self, shape: PodShape, state_numbers: Ints) -> Bools:
        states = self.states
        fits: Bools = (states.cpu[state_numbers] >= shape.cpu) & (states.memory[state_numbers] >= shape.memory)
        if shape.gpus:
            fits &= self._accepted_models(shape.models)[states.model[state_numbers]]
            fits &= self._sufficient_patterns(GpuRequest(shape.gpus, shape.milli))[states.pattern[state_numbers]]
        if shape.per_node is not None:
            limit = shape.per_node
            fits &= np.array([dict(states.states[n].apps).get(shape.app, 0) < limit for n in state_numbers], np.bool_)
        return fits

    def _accepted_models(self, accepted: frozenset[str]) -> Bools:
        """By model number, whether it is accepted."""
        result = self._accepted.get(accepted)
        if result is None:
            models = [not accepted or model in accepted for model in self.states.models]
            result = self._accepted[accepted] = np.array(models, np.bool_)
        return result

    def _sufficient_patterns(self, request: GpuRequest) -> Bools:
        """By pattern number, whether it has enough GPUs for the request."""
        known = self._sufficient.get(request, np.zeros(0, np.bool_))
        values = self.states.patterns.values
        if len(known) < len(values):
            new = [sum(milli >= request.milli for milli in free) >= request.gpus for free in values[len(known) :]]
            known = self._sufficient[request] = np.concatenate([known, np.array(new, np.bool_)])
        return known

    def _candidates(self, shape: PodShape, state_numbers: Ints) -> Candidates:
        """Every selection of GPUs for the shape on nodes of these states."""
        states = self.states
        after = states.pattern[state_numbers]
        if shape.gpus:
            request, patterns = GpuRequest(shape.gpus, shape.milli), states.patterns
            selections = [(number, patterns.selections(number, request)) for number in after.tolist()]
            state_numbers = np.repeat(state_numbers, [len(each) for _, each in selections])
            after = np.array(
                [patterns.after(number, request, selection) for number, each in selections for selection in each],
                np.int64,
            )
        return Candidates(
            state_numbers, states.cpu[state_numbers] - shape.cpu, states.memory[state_numbers] - shape.memory, after
        )
