"""Random: a random node that fits, and random GPUs of it; the baseline for all other policies."""

from __future__ import annotations

from allotment.tools.replay.policies.first_fit import equal_costs
from allotment.tools.replay.policies.policy import PlacementPolicy

RANDOM = PlacementPolicy("random", "a random node and random GPUs that fit", equal_costs, is_random=True)
