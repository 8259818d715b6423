"""Least fragmentation: the node and GPUs on which the pod adds the least fragmentation.

The rule of Weng et al. ("Beware of Fragmentation", USENIX ATC 2023): of all selections, the one that adds the least to
the fragmentation for the workload. As in the paper, pods have only CPU and GPUs, and the most common 95 % of the pods
are known.
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
    """The most common shapes that make up a ``known`` share of all pods, with the share of each among them.

    Shapes that differ only in memory, which the paper does not consider, are merged.
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
        # The capacity that the pod takes is no longer idle.
        added = lost - (patterns.idle[states.pattern[before]] - patterns.idle[candidates.pattern])
        # Rounded, so that no added fragmentation is exactly 0: the score is then 0.5, and any more would cost one
        # point.
        return cost_of_score(1 / (1 + np.exp(np.round(added, 6) / WHOLE)))

    return cost


LEAST_FRAGMENTATION = PlacementPolicy("fgd", "the node and GPUs with the least added fragmentation", _cost_function)
