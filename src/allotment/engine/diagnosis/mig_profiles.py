"""The memory that a MIG profile means, if there are no MIG devices: a whole GPU with this memory is the nearest."""

from __future__ import annotations

import re
from typing import Final

from allotment.cel import ValueComparison
from allotment.engine.diagnosis.condition_repairs import ConditionRepair
from allotment.engine.diagnosis.condition_text import comparison_text, request_text
from allotment.engine.diagnosis.stated_memory import MEMORY
from allotment.model.quantity import Quantity

_PROFILE: Final = re.compile(r"(?:[0-9]+c\.)?[1-9]g\.([0-9]+)gb.*")


def memory_of_profile(profile: str) -> str:
    """The memory in the name of a MIG profile, as a quantity; empty for other names.

    >>> memory_of_profile("1g.10gb"), memory_of_profile("1g.10gb+me"), memory_of_profile("all")
    ('10G', '10G', '')
    """
    found = _PROFILE.fullmatch(profile)
    return f"{found[1]}G" if found else ""


def memory_instead_of_profile(comparison: ValueComparison | None) -> tuple[ConditionRepair, ...]:
    """The repair that requests the memory of a profile."""
    if comparison is None or comparison.path[::2] != ("attributes", "profile") or comparison.operator != "==":
        return ()
    memory = memory_of_profile(str(comparison.literal))
    if not memory:
        return ()
    least, path = Quantity.parse(memory), ("capacity", comparison.path[1], MEMORY)
    text = f"{request_text(MEMORY, '>=', least)} instead of profile {comparison.literal}"
    return (ConditionRepair("other-value", text, comparison_text(path, ">=", least)),)
