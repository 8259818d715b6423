"""Lookahead: the way after which the node can still give most, to the pods that may come, and to those few who need it.

Two things are lost when a pod takes its place. The node can give less to whatever comes (`potential`): whether its CPU
will do for all of its GPUs, whether what is left of a GPU will be of use to anybody. And it can give less to pods that
have nowhere else to go (`fragmentation`, each pod weighed by how few GPUs accept it). It knows what sorts of pods there
are and how common each is, as the policy of least fragmentation does, and nothing of what comes next.
"""

from __future__ import annotations

import numpy as np

from allotment.tools.replay.fragmentation import UsableCapacity
from allotment.tools.replay.node_states import Floats
from allotment.tools.replay.policies.policy import Candidates, CostFunction, PlacementPolicy, PolicyContext
from allotment.tools.replay.potential import Potential
from allotment.tools.replay.workload import PodShape, capacity_of

#: What is lost to the next pod, beside what is lost in the end. Found by trial: 0.3 to 0.7 differ little.
_NEXT_POD_WEIGHT = 0.5
#: Costs that differ by less than a thousandth of a thousandth of a GPU are equal.
_DECIMALS = 3


def _cost_function(context: PolicyContext) -> CostFunction:
    states, workload = context.states, context.workload
    potential = Potential(workload, states.models, states.patterns)
    usable = UsableCapacity(workload.shapes, _weights(context), states.models, states.patterns)

    def cost(_: PodShape, candidates: Candidates) -> Floats:
        state = candidates.state
        model, cpu, pattern = states.model[state], states.cpu[state], states.pattern[state]
        loss = potential(model, cpu, pattern) - potential(model, candidates.cpu, candidates.pattern)
        loss += _NEXT_POD_WEIGHT * usable(model, cpu, states.memory[state], pattern)
        loss -= _NEXT_POD_WEIGHT * usable(model, candidates.cpu, candidates.memory, candidates.pattern)
        return np.round(loss, _DECIMALS)

    return cost


def _weights(context: PolicyContext) -> list[float]:
    """By shape, how common it is and how few GPUs accept it."""
    workload = context.workload
    total = max(sum(workload.counts), 1)
    everything = capacity_of(context.nodes)
    weights: list[float] = []
    for shape, count in zip(workload.shapes, workload.counts, strict=True):
        accepted = capacity_of([node for node in context.nodes if not shape.models or node.model in shape.models])
        weights.append(count / total * (everything / accepted if accepted else 0.0))
    return weights


LOOKAHEAD = PlacementPolicy("lookahead", "the way after which the node can still give most to pods to come (ours)", _cost_function)
