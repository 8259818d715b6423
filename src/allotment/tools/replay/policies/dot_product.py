"""Dot product: the node whose idle CPU and GPUs, relative to the largest node, align least with the pod's request.

The vector heuristic of Tetris (Grandl et al., SIGCOMM 2014) in the form that GPU schedulers use: large idle nodes are
kept for later pods.
"""

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

    def cost(shape: PodShape, candidates: Candidates) -> Floats:
        cpu = (candidates.cpu + shape.cpu) / most_cpu * (shape.cpu / most_cpu)
        gpu = (patterns.idle[candidates.pattern] + shape.amount) / most_gpu * (shape.amount / most_gpu)
        return cost_of_score(1 - (cpu + gpu) / 2)

    return cost


DOT_PRODUCT = PlacementPolicy(
    "dot-product", "the node whose idle CPU and GPU align least with the pod's request", _cost_function
)
