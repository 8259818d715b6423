"""Taints and tolerations of devices (KEP-5055), including those that DeviceTaintRules add."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.cluster.identity import DeviceID
from allotment.model.resource import DeviceTaint, DeviceTaintRule, DeviceToleration

#: Effects that prevent allocation of a device. ``None`` and unknown effects are informational.
BLOCKING = frozenset({"NoSchedule", "NoExecute"})


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Whether a toleration matches a taint; an empty key or effect matches any, an empty operator means Equal."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def blocking_taint(taints: Iterable[DeviceTaint], tolerations: tuple[DeviceToleration, ...]) -> DeviceTaint | None:
    """The first taint that prevents allocation of the device, or ``None``."""
    for taint in taints:
        if taint.effect in BLOCKING and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def rule_applies(rule: DeviceTaintRule, device: DeviceID) -> bool:
    """Whether a DeviceTaintRule taints the device: its fields are ANDed, a rule without a selector taints nothing."""
    selector = rule.spec.device_selector
    return selector is not None and all(
        wanted is None or wanted == found
        for wanted, found in (
            (selector.driver, device.driver),
            (selector.pool, device.pool),
            (selector.device, device.device),
        )
    )
