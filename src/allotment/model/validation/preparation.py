"""Prepares an object between defaults and validation: resets fields, drops gated fields and sets the generation.

A write to an object cannot change its status, and a write to its status cannot change the rest; such changes are reset
here without an error.
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


def for_create(value: T, features: Features | None) -> T:
    """Prepare a new object: without a status, with generation 1 if its kind has generations.

    Here and below, ``features`` None keeps the fields of disabled features.
    """
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
        spec = disabled_fields.pool_status_request(value.spec, None, features)
        result = replace(value, status=None, spec=spec)
    return result  # type: ignore[return-value]  # the type stays the same


def for_update(new: T, old: T, features: Features | None, *, now: str) -> T:
    """Prepare a changed object whose generation is the stored one."""
    result: object = new
    if isinstance(new, ResourceClaim) and isinstance(old, ResourceClaim):
        result = replace(new, status=old.status, spec=disabled_fields.claim_spec(new.spec, old.spec, features))
    elif isinstance(new, ResourceClaimTemplate) and isinstance(old, ResourceClaimTemplate):
        spec = disabled_fields.claim_spec(new.spec.spec, old.spec.spec, features)
        result = replace(new, spec=replace(new.spec, spec=spec))
    elif isinstance(new, DeviceClass) and isinstance(old, DeviceClass):
        dropped = disabled_fields.device_class(new, old, features)
        result = _next_generation(dropped, old) if dropped.spec != old.spec else dropped
    elif isinstance(new, ResourceSlice) and isinstance(old, ResourceSlice):
        # Unlike for a class, the generation changes before fields are dropped.
        updated = _next_generation(new, old) if new.spec != old.spec else new
        result = replace(updated, spec=disabled_fields.slice_spec(updated.spec, old.spec, features))
    elif isinstance(new, DeviceTaintRule) and isinstance(old, DeviceTaintRule):
        result = _taint_rule(new, old, now)
    elif isinstance(new, ResourcePoolStatusRequest) and isinstance(old, ResourcePoolStatusRequest):
        spec_of_request = disabled_fields.pool_status_request(new.spec, old.spec, features)
        result = replace(new, status=old.status, spec=spec_of_request)
    return result  # type: ignore[return-value]  # as above


def for_status_update(new: T, old: T, features: Features) -> T:
    """Prepare a status update: all other fields are reset to the stored ones."""
    result: object = new
    if isinstance(new, ResourceClaim) and isinstance(old, ResourceClaim):
        claim = replace(new, spec=old.spec, metadata=_status_meta(new.metadata, old.metadata))
        result = _without_deallocated(disabled_fields.claim_status(claim, old, features), old, features)
    elif isinstance(new, DeviceTaintRule | ResourcePoolStatusRequest):
        result = replace(new, spec=old.spec, metadata=_status_meta(new.metadata, old.metadata))  # type: ignore[attr-defined]
    return result  # type: ignore[return-value]  # as above


def _generation(value: T, generation: int) -> T:
    return replace(value, metadata=replace(value.metadata, generation=generation))


def _next_generation(value: T, old: T) -> T:
    return _generation(value, old.metadata.generation + 1)


def _taint_rule(new: DeviceTaintRule, old: DeviceTaintRule, now: str) -> DeviceTaintRule:
    """``timeAdded`` is the time since which the *effect* applies, unless the client sets it."""
    new = replace(new, status=old.status)
    taint, before = new.spec.taint, old.spec.taint
    if taint.effect != before.effect and taint.time_added == before.time_added:
        new = replace(new, spec=replace(new.spec, taint=replace(taint, time_added=now)))
    return _next_generation(new, old) if new.spec != old.spec else new


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
    """Remove the statuses of devices that the write deallocates, so that clients do not have to."""
    if not features.enabled("DRAResourceClaimDeviceStatus") and not old.status.devices:
        return new
    before, after = (
        {shared_device_id(result) for result in claim.status.allocation.devices.results}
        if claim.status.allocation is not None
        else set()
        for claim in (old, new)
    )
    deallocated = before - after
    devices = tuple(device for device in new.status.devices if shared_device_id(device) not in deallocated)
    return replace(new, status=replace(new.status, devices=devices))
