"""Advice if MIG devices are requested but there are none: to enable MIG, or to request a whole GPU with the memory that
the profile means, which is the nearest device."""

from __future__ import annotations

import re
from typing import Final

from allotment.cel import ValueComparison
from allotment.engine.diagnosis.condition_repairs import ConditionRepair
from allotment.engine.diagnosis.condition_text import comparison_text, request_text
from allotment.engine.diagnosis.published_names import PublishedNames
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


def how_to_enable(comparison: ValueComparison | None, published: PublishedNames) -> tuple[str, ...]:
    """A note if a condition requires MIG devices and no node has any: only they have a profile."""
    if comparison is None or comparison.operator != "==" or comparison.path[0] != "attributes":
        return ()
    _, domain, name = comparison.path
    is_mig = name == "type" and comparison.literal == "mig"
    is_mig |= name == "profile" and bool(memory_of_profile(str(comparison.literal)))
    if not is_mig or domain not in published.attributes or "profile" in published.attributes[domain]:
        return ()
    return ("No node has MIG devices: an administrator can enable MIG on a node (NVIDIA A100, H100 and later).",)


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
