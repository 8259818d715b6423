"""Best fit: the node with the least remaining CPU and GPU capacity, each relative to the largest node."""

from __future__ import annotations

from allotment.tools.replay.node_states import Floats
from allotment.tools.replay.policies.policy import (
    Candidates,
    CostFunction,
    PlacementPolicy,
    PolicyContext,
    cost_of_score,
    largest_node,
)
from allotment.tools.replay.workload import PodShape


def _cost_function(context: PolicyContext) -> CostFunction:
    most_cpu, most_gpu = largest_node(context)
    patterns = context.states.patterns

    def cost(_: PodShape, candidates: Candidates) -> Floats:
        return cost_of_score(1 - (candidates.cpu / most_cpu + patterns.idle[candidates.pattern] / most_gpu) / 2)

    return cost


BEST_FIT = PlacementPolicy("best-fit", "the node with the least CPU and GPU capacity left afterwards", _cost_function)
