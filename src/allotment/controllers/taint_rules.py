"""The devices that a DeviceTaintRule selects (KEP-5055)."""

from __future__ import annotations

from typing import Any

from allotment.cluster.cached_item import CachedItem

#: Driver, pool and name.
Device = tuple[str, str, str]


def effect_of(rule: CachedItem[Any]) -> str:
    """The effect of the rule's taint."""
    effect: str = rule.spec["taint"]["effect"]
    return effect


def selects(rule: CachedItem[Any], device: Device) -> bool:
    """Whether a rule selects a device. The set fields are ANDed; a rule without a selector taints nothing."""
    selector = rule.spec.get("deviceSelector")
    if selector is None:
        return False
    return all(
        selector.get(field) in (None, found) for field, found in zip(("driver", "pool", "device"), device, strict=True)
    )
