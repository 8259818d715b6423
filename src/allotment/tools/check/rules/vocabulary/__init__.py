"""Does anybody publish, install or understand that name? The words of drivers (``allotment.vocabulary``), held against
the files and, where one is given, against a cluster.
"""

from __future__ import annotations

from typing import Final

from allotment.tools.check.rule import Rule
from allotment.tools.check.rules.vocabulary import (
    helm_value,
    renamed_name,
    unknown_attribute,
    unknown_capacity,
    unknown_class,
    unknown_driver,
)

VOCABULARY: Final[tuple[Rule, ...]] = (
    unknown_attribute.RULE,
    unknown_capacity.RULE,
    renamed_name.RULE,
    unknown_driver.RULE,
    unknown_class.RULE,
    helm_value.RULE,
)
