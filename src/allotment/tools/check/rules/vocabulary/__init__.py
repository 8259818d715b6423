"""Does anybody publish, install or understand that name? The words of drivers (``allotment.vocabulary``), held against
the files and, where one is given, against a cluster.
"""

from __future__ import annotations

from typing import Final

from allotment.tools.check.rule import Rule
from allotment.tools.check.rules.vocabulary import helm_value, unknown_class

VOCABULARY: Final[tuple[Rule, ...]] = (unknown_class.RULE, helm_value.RULE)
