"""Random: any node that will do, and any of its GPUs: what every other policy should be better than."""

from __future__ import annotations

from allotment.tools.replay.policies.first_fit import equal_costs
from allotment.tools.replay.policies.policy import PlacementPolicy

RANDOM = PlacementPolicy("random", "any node and any GPUs that will do", equal_costs, is_random=True)
