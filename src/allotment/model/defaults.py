"""What the API server fills in before it validates.

Defaults belong to the version a client wrote. Only v1beta1 differs: its flat requests get a mode and a count only with
a class name, for otherwise a request for alternatives would look like both forms at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

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
Asked = TypeVar("Asked", ExactDeviceRequest, DeviceSubRequest)


def with_defaults(value: T, *, version: str, now: str) -> T:
    """An object of any kind with its defaults; kinds without any come back as they are.

    ``version``: the API version it was written in, without group. ``now``: RFC 3339, whole seconds, for taints
    without a time.
    """
    result: object = value
    if isinstance(value, ResourceClaim):
        result = replace(value, spec=_claim_spec(value.spec, version), status=_status(value).status)
    elif isinstance(value, ResourceClaimTemplate):
        result = replace(value, spec=replace(value.spec, spec=_claim_spec(value.spec.spec, version)))
    elif isinstance(value, ResourceSlice) and value.spec.devices:
        devices = tuple(_device(device, now) for device in value.spec.devices)
        result = replace(value, spec=replace(value.spec, devices=devices))
    elif isinstance(value, DeviceTaintRule):
        result = replace(value, spec=replace(value.spec, taint=_taint(value.spec.taint, now)))
    elif isinstance(value, ResourcePoolStatusRequest) and value.spec.limit is None:
        result = replace(value, spec=replace(value.spec, limit=POOL_STATUS_LIMIT))
    return result  # type: ignore[return-value]  # the same kind came out that went in


def _claim_spec(spec: ResourceClaimSpec, version: str) -> ResourceClaimSpec:
    if not spec.devices.requests:
        return spec
    requests = tuple(_request(request, version) for request in spec.devices.requests)
    return replace(spec, devices=replace(spec.devices, requests=requests))


def _request(request: DeviceRequest, version: str) -> DeviceRequest:
    exactly = request.exactly
    if exactly is not None:
        if version == "v1beta1" and not exactly.device_class_name:
            exactly = replace(exactly, tolerations=_tolerations(exactly.tolerations))
        else:
            exactly = _asked(exactly)
    return replace(request, exactly=exactly, first_available=tuple(map(_asked, request.first_available)))


def _asked(asked: Asked) -> Asked:
    mode = asked.allocation_mode or "ExactCount"
    count = 1 if mode == "ExactCount" and asked.count == 0 else asked.count
    return replace(asked, allocation_mode=mode, count=count, tolerations=_tolerations(asked.tolerations))


def _tolerations(values: Sequence[DeviceToleration]) -> tuple[DeviceToleration, ...]:
    return tuple(value if value.operator else replace(value, operator="Equal") for value in values)


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
