"""DeviceTaintRule: create, update and status update."""

from __future__ import annotations

from allotment.model.resource import DeviceTaintRule, DeviceTaintRuleSpec
from allotment.model.validation import names
from allotment.model.validation.conditions import check_conditions
from allotment.model.validation.context import ValidationContext
from allotment.model.validation.errors import Errors, too_many
from allotment.model.validation.metadata import object_meta, object_meta_update
from allotment.model.validation.taints import taint

CONDITIONS_MAX = 8


def taint_rule(value: DeviceTaintRule, _: ValidationContext) -> Errors:
    """Validate a new rule."""
    yield from object_meta(value.metadata, namespaced=False)
    yield from _spec(value.spec, None)


def taint_rule_update(new: DeviceTaintRule, old: DeviceTaintRule, _: ValidationContext) -> Errors:
    """Validate a changed rule."""
    yield from object_meta_update(new.metadata, old.metadata)
    yield from _spec(new.spec, old.spec)


def taint_rule_status_update(new: DeviceTaintRule, old: DeviceTaintRule, context: ValidationContext) -> Errors:
    """Validate a changed status."""
    yield from object_meta_update(new.metadata, old.metadata)
    conditions = new.status.conditions
    yield from check_conditions(conditions, "status.conditions", context.features)
    if len(conditions) > CONDITIONS_MAX:
        yield too_many("status.conditions", len(conditions), CONDITIONS_MAX)


def _spec(spec: DeviceTaintRuleSpec, old: DeviceTaintRuleSpec | None) -> Errors:
    if (selector := spec.device_selector) is not None:
        path = "spec.deviceSelector"
        if selector.driver is not None:
            yield from names.driver_name(selector.driver, f"{path}.driver")
        if selector.pool is not None:
            yield from names.pool_name(selector.pool, f"{path}.pool")
        if selector.device is not None:
            yield from names.label(selector.device, f"{path}.device")
    yield from taint(spec.taint, "spec.taint", old.taint if old is not None else None)
