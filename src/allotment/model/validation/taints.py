"""Taints of devices, and tolerations of requests and results."""

from __future__ import annotations

from allotment.model.resource import DeviceTaint, DeviceToleration
from allotment.model.validation import names
from allotment.model.validation.errors import Errors, invalid, not_supported, required
from allotment.model.validation.gotext import GoNamedString

TAINTS_MAX = 16
EFFECTS = ("NoExecute", "NoSchedule", "None")
EQUAL, EXISTS = "Equal", "Exists"


def taint(value: DeviceTaint, path: str, old: DeviceTaint | None = None) -> Errors:
    """Validate a taint; an unchanged effect can be one that this release does not know."""
    yield from names.label_key(value.key, f"{path}.key")
    yield from names.label_value(value.value, f"{path}.value")
    if old is None or old.effect != value.effect:
        if not value.effect:
            yield required(f"{path}.effect")
        elif value.effect not in EFFECTS:
            yield not_supported(f"{path}.effect", GoNamedString(value.effect), EFFECTS)


def toleration(value: DeviceToleration, path: str) -> Errors:
    """Validate a toleration. An empty key with Equal, and seconds without NoExecute, are accepted."""
    if value.key:
        yield from names.label_key(value.key, f"{path}.key")
    if value.operator == EXISTS:
        if value.value:
            yield invalid(f"{path}.value", value.value, "must be empty for operator `Exists`")
    elif value.operator == EQUAL:
        yield from names.label_value(value.value, f"{path}.value")
    elif not value.operator:
        yield required(f"{path}.operator")
    else:
        yield not_supported(f"{path}.operator", GoNamedString(value.operator), (EQUAL, EXISTS))
    if value.effect and value.effect not in EFFECTS:
        yield not_supported(f"{path}.effect", GoNamedString(value.effect), EFFECTS)
