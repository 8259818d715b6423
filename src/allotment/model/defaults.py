"""Sets the defaults that the API server sets before validation.

Defaults depend on the version that a client wrote. Only v1beta1 differs: its flat requests get a mode and a count only
if they have a class name; otherwise a request with alternatives would look like both forms.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_not
from typing import Any, TypeVar

from msgspec.structs import replace

from allotment.model.meta import Value
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    Device,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSubRequest,
    DeviceTaint,
    DeviceTaintRule,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourcePoolStatusRequest,
    ResourceSlice,
)

POOL_STATUS_LIMIT = 100

T = TypeVar("T")
V = TypeVar("V", bound=Value)
RequestT = TypeVar("RequestT", ExactDeviceRequest, DeviceSubRequest)


def with_defaults(value: T, *, version: str, now: str, stored: T | None = None) -> T:
    """Return an object of any kind with its defaults; the same value if it already has them.

    ``version``: the API version that it was written in, without group. ``now``: RFC 3339, whole seconds, for taints
    without a time. ``stored``: the previous state; a spec that is identical to it has its defaults.
    """
    result: object = value
    if isinstance(value, ResourceClaim):
        same = isinstance(stored, ResourceClaim) and value.spec is stored.spec
        result = _replace_changed(
            value, spec=value.spec if same else _claim_spec(value.spec, version), status=_status(value).status
        )
    elif isinstance(value, ResourceClaimTemplate):
        result = _replace_changed(value, spec=_replace_changed(value.spec, spec=_claim_spec(value.spec.spec, version)))
    elif isinstance(value, ResourceSlice) and value.spec.devices:
        devices = _map_values(lambda device: _device(device, now), value.spec.devices)
        result = _replace_changed(value, spec=_replace_changed(value.spec, devices=devices))
    elif isinstance(value, DeviceTaintRule):
        result = _replace_changed(value, spec=_replace_changed(value.spec, taint=_taint(value.spec.taint, now)))
    elif isinstance(value, ResourcePoolStatusRequest) and value.spec.limit is None:
        result = replace(value, spec=replace(value.spec, limit=POOL_STATUS_LIMIT))
    return result  # type: ignore[return-value]  # the same kind came out that went in


def _replace_changed(value: V, **fields: Any) -> V:
    """Replace fields of a value; the same value if nothing changes."""
    changed = {
        name: new for name, new in fields.items() if new is not getattr(value, name) and new != getattr(value, name)
    }
    return replace(value, **changed) if changed else value


def _map_values(change: Callable[[T], T], values: tuple[T, ...]) -> tuple[T, ...]:
    """Apply a function to every value; the same tuple if nothing changes."""
    mapped = tuple([change(value) for value in values])
    return mapped if any(map(is_not, mapped, values)) else values


def _claim_spec(spec: ResourceClaimSpec, version: str) -> ResourceClaimSpec:
    if not spec.devices.requests:
        return spec
    requests = _map_values(lambda request: _request(request, version), spec.devices.requests)
    return _replace_changed(spec, devices=_replace_changed(spec.devices, requests=requests))


def _request(request: DeviceRequest, version: str) -> DeviceRequest:
    exactly = request.exactly
    if exactly is not None:
        if version == "v1beta1" and not exactly.device_class_name:
            exactly = _replace_changed(exactly, tolerations=_tolerations(exactly.tolerations))
        else:
            exactly = _request_defaults(exactly)
    return _replace_changed(
        request, exactly=exactly, first_available=_map_values(_request_defaults, request.first_available)
    )


def _request_defaults(request_fields: RequestT) -> RequestT:
    mode = request_fields.allocation_mode or "ExactCount"
    count = 1 if mode == "ExactCount" and request_fields.count == 0 else request_fields.count
    return _replace_changed(
        request_fields, allocation_mode=mode, count=count, tolerations=_tolerations(request_fields.tolerations)
    )


def _tolerations(values: tuple[DeviceToleration, ...]) -> tuple[DeviceToleration, ...]:
    return _map_values(lambda value: value if value.operator else replace(value, operator="Equal"), values)


def _status(claim: ResourceClaim) -> ResourceClaim:
    allocation = claim.status.allocation
    if allocation is None or not any(result.tolerations for result in allocation.devices.results):
        return claim

    def result(value: DeviceRequestAllocationResult) -> DeviceRequestAllocationResult:
        return replace(value, tolerations=_tolerations(value.tolerations))

    devices = replace(allocation.devices, results=tuple(map(result, allocation.devices.results)))
    return replace(claim, status=replace(claim.status, allocation=replace(allocation, devices=devices)))


def _device(device: Device, now: str) -> Device:
    mappings = device.node_allocatable_resource_mappings
    if any(mapping.allocation_multiplier is None for mapping in mappings.values()):
        one = Quantity.of_int(1)
        mappings = {
            name: mapping if mapping.allocation_multiplier is not None else replace(mapping, allocation_multiplier=one)
            for name, mapping in mappings.items()
        }
        device = replace(device, node_allocatable_resource_mappings=mappings)
    if any(taint.time_added is None for taint in device.taints):
        device = replace(device, taints=tuple(_taint(taint, now) for taint in device.taints))
    return device


def _taint(taint: DeviceTaint, now: str) -> DeviceTaint:
    return taint if taint.time_added is not None else replace(taint, time_added=now)
