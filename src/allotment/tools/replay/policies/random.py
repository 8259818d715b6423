"""Random: any node that will do, and any of its GPUs: what every other policy should be better than."""

from __future__ import annotations

from allotment.tools.replay.policies.first_fit import equal
from allotment.tools.replay.policies.policy import Policy

RANDOM = Policy("random", "any node and any GPUs that will do", equal, by_chance=True)
