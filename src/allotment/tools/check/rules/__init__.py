"""All rules, by family: the table of contents, the documentation and the command line's help are this tuple.

shape S1xx: is it an object that a cluster of this release takes? cel C2xx: is the expression one, and can it be true?
vocabulary V3xx: does anybody publish, install or understand that name? meaning M4xx: will it do what is meant?
proof P5xx: tried on the engine, with the devices that were given.
"""

from __future__ import annotations

from typing import Final

from allotment.tools.check.rule import Rule
from allotment.tools.check.rules.proof import PROOF_RULES
from allotment.tools.check.rules.static_rules import STATIC_RULES

RULES: Final[tuple[Rule, ...]] = (*STATIC_RULES, *PROOF_RULES)
