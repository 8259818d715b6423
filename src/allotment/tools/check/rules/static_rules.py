"""The rules that need no trial. The proof builds on what they find: only files without errors are tried."""

from __future__ import annotations

from typing import Final

from allotment.tools.check.rule import Rule
from allotment.tools.check.rules.cel import CEL
from allotment.tools.check.rules.meaning import MEANING
from allotment.tools.check.rules.shape import SHAPE
from allotment.tools.check.rules.vocabulary import VOCABULARY

UNTRIED: Final[tuple[Rule, ...]] = (*SHAPE, *CEL, *VOCABULARY, *MEANING)
