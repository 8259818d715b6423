"""Lookahead: the node and GPUs after which the node keeps the most capacity for future pods.

A placement has two costs. The node's potential for future pods decreases (`potential`): its CPU must suffice for all
its GPUs, and the remaining part of a GPU must be usable. And its usable capacity decreases for pods with few
alternatives (`fragmentation`, with each pod weighted by how few GPUs accept it). Like least fragmentation, the policy
knows the pod shapes of the workload and their frequencies, but not which pods arrive next.
"""

from __future__ import annotations

import numpy as np

from allotment.tools.replay.fragmentation import UsableCapacity
from allotment.tools.replay.node_states import Floats
from allotment.tools.replay.policies.policy import Candidates, CostFunction, PlacementPolicy, PolicyContext
from allotment.tools.replay.potential import Potential
from allotment.tools.replay.workload import PodShape, capacity_of

#: The weight of the loss for the next pod relative to the loss of potential. By experiment, 0.3 to 0.7 differ little.
_NEXT_POD_WEIGHT = 0.5
#: Costs that differ by less than a millionth of a GPU are equal.
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
    """The weight by shape: its frequency divided by the share of GPUs that accept it."""
    workload = context.workload
    total = max(sum(workload.counts), 1)
    everything = capacity_of(context.nodes)
    weights: list[float] = []
    for shape, count in zip(workload.shapes, workload.counts, strict=True):
        accepted = capacity_of([node for node in context.nodes if not shape.models or node.model in shape.models])
        weights.append(count / total * (everything / accepted if accepted else 0.0))
    return weights


LOOKAHEAD = PlacementPolicy(
    "lookahead",
    "the node and GPUs that leave the most capacity for future pods (developed for Allotment)",
    _cost_function,
)
