"""Rules for CEL selectors that do not compile, fail at evaluation, or cannot be true."""

from __future__ import annotations

from typing import Final

from allotment.tools.check.rule import Rule
from allotment.tools.check.rules.cel import (
    capacity_in_attributes,
    does_not_compile,
    no_domain,
    not_quantity,
    not_semver,
    quantity_as_number,
    quantity_operator,
    too_costly,
    unguarded_name,
    value_accessor,
    version_as_text,
)

CEL_RULES: Final[tuple[Rule, ...]] = (
    does_not_compile.RULE,
    quantity_operator.RULE,
    version_as_text.RULE,
    value_accessor.RULE,
    no_domain.RULE,
    too_costly.RULE,
    unguarded_name.RULE,
    capacity_in_attributes.RULE,
    not_semver.RULE,
    quantity_as_number.RULE,
    not_quantity.RULE,
)
