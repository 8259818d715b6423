"""First fit: the first node that fits, and its first GPUs, as the Kubernetes allocator chooses them."""

from __future__ import annotations

import numpy as np

from allotment.tools.replay.node_states import Floats
from allotment.tools.replay.policies.policy import Candidates, CostFunction, PlacementPolicy, PolicyContext
from allotment.tools.replay.workload import PodShape


def equal_costs(_: PolicyContext) -> CostFunction:
    """A cost function with equal costs for all candidates."""

    def cost(_: PodShape, candidates: Candidates) -> Floats:
        return np.zeros(len(candidates.state))

    return cost


FIRST_FIT = PlacementPolicy("first-fit", "the first node and the first GPUs that fit", equal_costs, is_ordered=True)
