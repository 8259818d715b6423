"""Rules for objects that do not get their devices in a simulation of the cluster."""

from __future__ import annotations

from typing import Final

from allotment.tools.check.rule import Rule
from allotment.tools.check.rules.proof import not_tried, pending

PROOF_RULES: Final[tuple[Rule, ...]] = (pending.RULE, not_tried.RULE)
