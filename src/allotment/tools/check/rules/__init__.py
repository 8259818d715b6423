"""The table of all rules, by family. The rule pages and the command line's help are generated from it.

shape S1xx: does a cluster of this release accept the object? cel C2xx: does the expression compile, and can it be true?
vocabulary V3xx: does a driver publish, install or understand the name? meaning M4xx: does the object do what its author
intends? proof P5xx: does the object get its devices in a simulation of the cluster?
"""

from __future__ import annotations

from typing import Final

from allotment.tools.check.rule import Rule
from allotment.tools.check.rules.proof import PROOF_RULES
from allotment.tools.check.rules.static_rules import STATIC_RULES

RULES: Final[tuple[Rule, ...]] = (*STATIC_RULES, *PROOF_RULES)
