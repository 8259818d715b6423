"""Placement policies, one per module, and the table of all policies in output order."""

from allotment.tools.replay.policies.best_fit import BEST_FIT
from allotment.tools.replay.policies.dot_product import DOT_PRODUCT
from allotment.tools.replay.policies.first_fit import FIRST_FIT
from allotment.tools.replay.policies.least_fragmentation import LEAST_FRAGMENTATION
from allotment.tools.replay.policies.lookahead import LOOKAHEAD
from allotment.tools.replay.policies.policy import PlacementPolicy
from allotment.tools.replay.policies.random import RANDOM

POLICIES: tuple[PlacementPolicy, ...] = (RANDOM, DOT_PRODUCT, BEST_FIT, FIRST_FIT, LEAST_FRAGMENTATION, LOOKAHEAD)

__all__ = ["POLICIES", "PlacementPolicy"]
