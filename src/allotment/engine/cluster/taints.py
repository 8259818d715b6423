"""Taints and tolerations of devices (KEP-5055), and the taints that administrators add by rules."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.cluster.identity import DeviceID
from allotment.model.resource import DeviceTaint, DeviceTaintRule, DeviceToleration

#: Effects that keep a device from being allocated. ``None`` and effects of the future inform only.
BLOCKING = frozenset({"NoSchedule", "NoExecute"})


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Whether one toleration covers one taint; an empty key or effect covers any, an empty operator means Equal."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def blocking_taint(taints: Iterable[DeviceTaint], tolerations: tuple[DeviceToleration, ...]) -> DeviceTaint | None:
    """The first taint that keeps the device from being allocated, or ``None``."""
    for taint in taints:
        if taint.effect in BLOCKING and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def rule_applies(rule: DeviceTaintRule, device: DeviceID) -> bool:
    """Whether a DeviceTaintRule taints the device: set fields are ANDed, a rule without selector taints nothing."""
    selector = rule.spec.device_selector
    return selector is not None and all(
        wanted is None or wanted == found
        for wanted, found in (
            (selector.driver, device.driver),
            (selector.pool, device.pool),
            (selector.device, device.device),
        )
    )
