"""Least fragmentation: the node and the GPU on which the pod makes the least of what is idle useless to others.

The rule of Weng et al. ("Beware of Fragmentation", USENIX ATC 2023), by the paper: of all ways the one that adds least
to the fragmentation that the workload sees, where a pod is its CPU and GPUs, and the commonest 95 % of the pods are
known.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from allotment.tools.replay.fragmentation import UsableCapacity
from allotment.tools.replay.node_states import Floats
from allotment.tools.replay.policies.policy import (
    Candidates,
    CostFunction,
    PlacementPolicy,
    PolicyContext,
    cost_of_score,
)
from allotment.tools.replay.trace import WHOLE
from allotment.tools.replay.workload import PodShape, Workload

_KNOWN_SHARE = 0.95


def common_shapes(workload: Workload, known: float = _KNOWN_SHARE) -> dict[PodShape, float]:
    """The commonest sorts of pods that make up ``known`` of all, and the share of each among them.

    Sorts that differ only in what the paper's pods do not have, memory, are one.
    """
    counts: Counter[PodShape] = Counter()
    for shape, count in zip(workload.shapes, workload.counts, strict=True):
        counts[shape._replace(memory=0, app="", per_node=None)] += count
    found: dict[PodShape, float] = {}
    so_far = 0
    for shape, count in counts.most_common():
        if so_far >= known * counts.total():
            break
        found[shape] = count
        so_far += count
    return {shape: count / so_far for shape, count in found.items()}


def _cost_function(context: PolicyContext) -> CostFunction:
    states = context.states
    shapes = common_shapes(context.workload)
    usable = UsableCapacity(tuple(shapes), tuple(shapes.values()), states.models, states.patterns)
    patterns = states.patterns

    def cost(shape: PodShape, candidates: Candidates) -> Floats:
        before = candidates.state
        model = states.model[before]
        lost = usable(model, states.cpu[before], states.memory[before], states.pattern[before])
        lost -= usable(model, candidates.cpu, candidates.memory, candidates.pattern)
        # What the pod itself takes is not idle any more.
        added = lost - (patterns.idle[states.pattern[before]] - patterns.idle[candidates.pattern])
        # Rounded, so that nothing added is exactly nothing: half of all points, which the least more would cost one of.
        return cost_of_score(1 / (1 + np.exp(np.round(added, 6) / WHOLE)))

    return cost


LEAST_FRAGMENTATION = PlacementPolicy("fgd", "the way that makes the least of idle GPUs useless to others", _cost_function)
