"""What happens to an object between its defaults and its validation: fields reset, gated fields dropped, generation.

A write to an object cannot touch its status and a write to its status cannot touch the rest; which part a request may
change is decided here, not reported as an error.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from allotment.model.features import Features
from allotment.model.meta import Object, ObjectMeta
from allotment.model.resource import (
    DeviceClass,
    DeviceTaintRule,
    DeviceTaintRuleStatus,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourcePoolStatusRequest,
    ResourceSlice,
)
from allotment.model.validation import disabled_fields
from allotment.model.validation.claim_status import shared_device_id

T = TypeVar("T", bound=Object)


def for_create(value: T, features: Features) -> T:
    """A new object of any kind: without a status, generation 1 where the kind counts generations."""
    result: object = value
    if isinstance(value, ResourceClaim):
        result = replace(
            value, status=ResourceClaimStatus(), spec=disabled_fields.claim_spec(value.spec, None, features)
        )
    elif isinstance(value, ResourceClaimTemplate):
        result = replace(
            value, spec=replace(value.spec, spec=disabled_fields.claim_spec(value.spec.spec, None, features))
        )
    elif isinstance(value, DeviceClass):
        result = disabled_fields.device_class(_generation(value, 1), None, features)
    elif isinstance(value, ResourceSlice):
        result = replace(_generation(value, 1), spec=disabled_fields.slice_spec(value.spec, None, features))
    elif isinstance(value, DeviceTaintRule):
        result = replace(_generation(value, 1), status=DeviceTaintRuleStatus())
    elif isinstance(value, ResourcePoolStatusRequest):
        result = replace(value, status=None)
    return result  # type: ignore[return-value]  # the same kind came out that went in


def for_update(new: T, old: T, features: Features, *, now: str) -> T:
    """A changed object of any kind, its generation being the stored one."""
    result: object = new
    if isinstance(new, ResourceClaim) and isinstance(old, ResourceClaim):
        result = replace(new, status=old.status, spec=disabled_fields.claim_spec(new.spec, old.spec, features))
    elif isinstance(new, ResourceClaimTemplate) and isinstance(old, ResourceClaimTemplate):
        spec = disabled_fields.claim_spec(new.spec.spec, old.spec.spec, features)
        result = replace(new, spec=replace(new.spec, spec=spec))
    elif isinstance(new, DeviceClass) and isinstance(old, DeviceClass):
        dropped = disabled_fields.device_class(new, old, features)
        result = _counted(dropped, old) if dropped.spec != old.spec else dropped
    elif isinstance(new, ResourceSlice) and isinstance(old, ResourceSlice):
        # Counted before fields are dropped, unlike a class.
        counted = _counted(new, old) if new.spec != old.spec else new
        result = replace(counted, spec=disabled_fields.slice_spec(counted.spec, old.spec, features))
    elif isinstance(new, DeviceTaintRule) and isinstance(old, DeviceTaintRule):
        result = _taint_rule(new, old, now)
    elif isinstance(new, ResourcePoolStatusRequest) and isinstance(old, ResourcePoolStatusRequest):
        result = replace(new, status=old.status)
    return result  # type: ignore[return-value]  # as above


def for_status_update(new: T, old: T, features: Features) -> T:
    """An object whose status is written: all else is as stored."""
    result: object = new
    if isinstance(new, ResourceClaim) and isinstance(old, ResourceClaim):
        claim = replace(new, spec=old.spec, metadata=_status_meta(new.metadata, old.metadata))
        result = _without_deallocated(disabled_fields.claim_status(claim, old, features), old, features)
    elif isinstance(new, DeviceTaintRule | ResourcePoolStatusRequest):
        result = replace(new, spec=old.spec, metadata=_status_meta(new.metadata, old.metadata))  # type: ignore[attr-defined]
    return result  # type: ignore[return-value]  # as above


def _generation(value: T, generation: int) -> T:
    return replace(value, metadata=replace(value.metadata, generation=generation))


def _counted(value: T, old: T) -> T:
    return _generation(value, old.metadata.generation + 1)


def _taint_rule(new: DeviceTaintRule, old: DeviceTaintRule, now: str) -> DeviceTaintRule:
    """``timeAdded`` tells since when the *effect* has held, unless the client sets it itself."""
    new = replace(new, status=old.status)
    taint, before = new.spec.taint, old.spec.taint
    if taint.effect != before.effect and taint.time_added == before.time_added:
        new = replace(new, spec=replace(new.spec, taint=replace(taint, time_added=now)))
    return _counted(new, old) if new.spec != old.spec else new


def _status_meta(new: ObjectMeta, old: ObjectMeta) -> ObjectMeta:
    return replace(
        new,
        deletion_timestamp=old.deletion_timestamp,
        generation=old.generation,
        labels=old.labels,
        annotations=old.annotations,
        finalizers=old.finalizers,
        owner_references=old.owner_references,
    )


def _without_deallocated(new: ResourceClaim, old: ResourceClaim, features: Features) -> ResourceClaim:
    """Without the statuses of devices that the write takes away, so that writers need not know of them."""
    if not features.enabled("DRAResourceClaimDeviceStatus") and not old.status.devices:
        return new
    before, after = (
        {shared_device_id(result) for result in claim.status.allocation.devices.results}
        if claim.status.allocation is not None
        else set()
        for claim in (old, new)
    )
    gone = before - after
    devices = tuple(device for device in new.status.devices if shared_device_id(device) not in gone)
    return replace(new, status=replace(new.status, devices=devices))
