"""What the API server fills in before it validates.

Defaults belong to the version a client wrote. Only v1beta1 differs: its flat requests get a mode and a count only with
a class name, for otherwise a request for alternatives would look like both forms at once.
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
Asked = TypeVar("Asked", ExactDeviceRequest, DeviceSubRequest)


def with_defaults(value: T, *, version: str, now: str, stored: T | None = None) -> T:
    """An object of any kind with its defaults; whatever lacks none comes back as it is, the very same value.

    ``version``: the API version it was written in, without group. ``now``: RFC 3339, whole seconds, for taints
    without a time. ``stored``: the state before, whose spec has its defaults if it is still the very same.
    """
    result: object = value
    if isinstance(value, ResourceClaim):
        same = isinstance(stored, ResourceClaim) and value.spec is stored.spec
        result = _with(
            value, spec=value.spec if same else _claim_spec(value.spec, version), status=_status(value).status
        )
    elif isinstance(value, ResourceClaimTemplate):
        result = _with(value, spec=_with(value.spec, spec=_claim_spec(value.spec.spec, version)))
    elif isinstance(value, ResourceSlice) and value.spec.devices:
        devices = _each(lambda device: _device(device, now), value.spec.devices)
        result = _with(value, spec=_with(value.spec, devices=devices))
    elif isinstance(value, DeviceTaintRule):
        result = _with(value, spec=_with(value.spec, taint=_taint(value.spec.taint, now)))
    elif isinstance(value, ResourcePoolStatusRequest) and value.spec.limit is None:
        result = replace(value, spec=replace(value.spec, limit=POOL_STATUS_LIMIT))
    return result  # type: ignore[return-value]  # the same kind came out that went in


def _with(value: V, **fields: Any) -> V:
    """A value with other fields; the same value if they are no others."""
    changed = {
        name: new for name, new in fields.items() if new is not getattr(value, name) and new != getattr(value, name)
    }
    return replace(value, **changed) if changed else value


def _each(change: Callable[[T], T], values: tuple[T, ...]) -> tuple[T, ...]:
    """Every value changed; the same tuple if none is."""
    made = tuple([change(value) for value in values])
    return made if any(map(is_not, made, values)) else values


def _claim_spec(spec: ResourceClaimSpec, version: str) -> ResourceClaimSpec:
    if not spec.devices.requests:
        return spec
    requests = _each(lambda request: _request(request, version), spec.devices.requests)
    return _with(spec, devices=_with(spec.devices, requests=requests))


def _request(request: DeviceRequest, version: str) -> DeviceRequest:
    exactly = request.exactly
    if exactly is not None:
        if version == "v1beta1" and not exactly.device_class_name:
            exactly = _with(exactly, tolerations=_tolerations(exactly.tolerations))
        else:
            exactly = _asked(exactly)
    return _with(request, exactly=exactly, first_available=_each(_asked, request.first_available))


def _asked(asked: Asked) -> Asked:
    mode = asked.allocation_mode or "ExactCount"
    count = 1 if mode == "ExactCount" and asked.count == 0 else asked.count
    return _with(asked, allocation_mode=mode, count=count, tolerations=_tolerations(asked.tolerations))


def _tolerations(values: tuple[DeviceToleration, ...]) -> tuple[DeviceToleration, ...]:
    return _each(lambda value: value if value.operator else replace(value, operator="Equal"), values)


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
