"""The rules that need no simulation. The simulation uses their results: it skips objects with errors."""

from __future__ import annotations

from typing import Final

from allotment.tools.check.rule import Rule
from allotment.tools.check.rules.cel import CEL_RULES
from allotment.tools.check.rules.meaning import MEANING_RULES
from allotment.tools.check.rules.shape import SHAPE_RULES
from allotment.tools.check.rules.vocabulary import VOCABULARY_RULES

STATIC_RULES: Final[tuple[Rule, ...]] = (*SHAPE_RULES, *CEL_RULES, *VOCABULARY_RULES, *MEANING_RULES)
