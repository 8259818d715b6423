"""Drops the fields of disabled features on write, unless the stored object uses the feature already.

There is one function per kind, and one table entry per feature: whether its fields are in use, and how to remove them.
Dropping a field is not an error; validation of the remaining fields can fail. Without features, nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from allotment.model.features import Features
from allotment.model.resource import (
    Device,
    DeviceAttribute,
    DeviceClass,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourcePoolStatusRequestSpec,
    ResourceSliceSpec,
)

T = TypeVar("T")
RequestT = TypeVar("RequestT", ExactDeviceRequest, DeviceSubRequest)

_NO_LISTS: dict[str, None] = {"bools": None, "ints": None, "strings": None, "versions": None}


class GatedFields(NamedTuple):
    """Fields behind feature gates: whether an object uses them, and how to remove them from it."""

    gates: tuple[str, ...]
    in_use: Callable[..., bool]
    without: Callable[..., object]


def _drop(new: T, old: T | None, table: tuple[GatedFields, ...], features: Features | None) -> T:
    result: object = new
    if features is None:
        return new
    for gates, in_use, without in table:
        if not all(map(features.enabled, gates)) and (old is None or not in_use(old)):
            result = without(result)
    return result  # type: ignore[return-value]  # every table entry keeps the type


# --- ResourceClaim and ResourceClaimTemplate: the spec ---------------------------------------------------------------


def claim_spec(new: ResourceClaimSpec, old: ResourceClaimSpec | None, features: Features | None) -> ResourceClaimSpec:
    """A claim's spec without the fields of disabled features."""
    return _drop(new, old, _CLAIM_SPEC, features)


def _with_requests(spec: ResourceClaimSpec, change: Callable[[DeviceRequest], DeviceRequest]) -> ResourceClaimSpec:
    return replace(spec, devices=replace(spec.devices, requests=tuple(map(change, spec.devices.requests))))


def _request_forms(spec: ResourceClaimSpec) -> list[ExactDeviceRequest | DeviceSubRequest]:
    return [
        form
        for request in spec.devices.requests
        for form in ((request.exactly,) if request.exactly is not None else ()) + request.first_available
    ]


def _with_request_forms(spec: ResourceClaimSpec, **changes: object) -> ResourceClaimSpec:
    def change(request: DeviceRequest) -> DeviceRequest:
        exactly = request.exactly
        return replace(
            request,
            exactly=None if exactly is None else replace(exactly, **changes),
            first_available=tuple(replace(sub, **changes) for sub in request.first_available),
        )

    return _with_requests(spec, change)


def _without_admin_access(spec: ResourceClaimSpec) -> ResourceClaimSpec:
    def change(request: DeviceRequest) -> DeviceRequest:
        exactly = request.exactly
        return request if exactly is None else replace(request, exactly=replace(exactly, admin_access=None))

    return _with_requests(spec, change)


def _admin_access_in_spec(spec: ResourceClaimSpec) -> bool:
    return any(r.exactly is not None and r.exactly.admin_access is not None for r in spec.devices.requests)


def _consumable_in_spec(spec: ResourceClaimSpec) -> bool:
    return any(c.distinct_attribute is not None for c in spec.devices.constraints) or any(
        form.capacity is not None for form in _request_forms(spec)
    )


def _without_consumable(spec: ResourceClaimSpec) -> ResourceClaimSpec:
    spec = _with_request_forms(spec, capacity=None)
    constraints = tuple(replace(constraint, distinct_attribute=None) for constraint in spec.devices.constraints)
    return replace(spec, devices=replace(spec.devices, constraints=constraints))


_CLAIM_SPEC = (
    GatedFields(
        ("DRAPrioritizedList",),
        lambda spec: any(request.first_available for request in spec.devices.requests),
        lambda spec: _with_requests(spec, lambda request: replace(request, first_available=())),
    ),
    GatedFields(
        ("DRADeviceTaints",),
        lambda spec: any(form.tolerations for form in _request_forms(spec)),
        lambda spec: _with_request_forms(spec, tolerations=()),
    ),
    GatedFields(("DRAAdminAccess",), _admin_access_in_spec, _without_admin_access),
    GatedFields(("DRAConsumableCapacity",), _consumable_in_spec, _without_consumable),
    GatedFields(
        ("DRADerivedAttributes",),
        lambda spec: any(form.derived_attributes for form in _request_forms(spec)),
        lambda spec: _with_request_forms(spec, derived_attributes=()),
    ),
)


# --- ResourceClaim: the status ---------------------------------------------------------------------------------------


def claim_status(new: ResourceClaim, old: ResourceClaim, features: Features | None) -> ResourceClaim:
    """A claim without the status fields of disabled features."""
    return _drop(new, old, _CLAIM_STATUS, features)


def _results(claim: ResourceClaim) -> tuple[DeviceRequestAllocationResult, ...]:
    return claim.status.allocation.devices.results if claim.status.allocation is not None else ()


def _with_status(claim: ResourceClaim, **changes: object) -> ResourceClaim:
    status: ResourceClaimStatus = replace(claim.status, **changes)
    return replace(claim, status=status)


def _with_results(claim: ResourceClaim, **changes: object) -> ResourceClaim:
    allocation = claim.status.allocation
    if allocation is None:
        return claim
    results = tuple(replace(result, **changes) for result in allocation.devices.results)
    return _with_status(claim, allocation=replace(allocation, devices=replace(allocation.devices, results=results)))


def _shares_in_use(claim: ResourceClaim) -> bool:
    return (
        _consumable_in_spec(claim.spec)
        or any(result.share_id is not None or result.consumed_capacity for result in _results(claim))
        or any(device.share_id is not None for device in claim.status.devices)
    )


def _without_shares(claim: ResourceClaim) -> ResourceClaim:
    claim = _with_results(claim, share_id=None, consumed_capacity={})
    return _with_status(claim, devices=tuple(replace(device, share_id=None) for device in claim.status.devices))


_CLAIM_STATUS = (
    GatedFields(
        ("DRAResourceClaimDeviceStatus",),
        lambda claim: bool(claim.status.devices),
        lambda claim: _with_status(claim, devices=()),
    ),
    GatedFields(
        ("DRAAdminAccess",),
        lambda claim: _admin_access_in_spec(claim.spec) or any(r.admin_access is not None for r in _results(claim)),
        lambda claim: _with_results(claim, admin_access=None),
    ),
    GatedFields(("DRAConsumableCapacity",), _shares_in_use, _without_shares),
    GatedFields(  # results depend on this gate only, slices also on the gate of device statuses
        ("DRADeviceBindingConditions",),
        lambda claim: any(r.binding_conditions or r.binding_failure_conditions for r in _results(claim)),
        lambda claim: _with_results(claim, binding_conditions=(), binding_failure_conditions=()),
    ),
    GatedFields(
        ("DRAOptionalNodeOperations",),
        lambda claim: any(result.skip_node_operations for result in _results(claim)),
        lambda claim: _with_results(claim, skip_node_operations=()),
    ),
)


# --- ResourceSlice ---------------------------------------------------------------------------------------------------


def slice_spec(new: ResourceSliceSpec, old: ResourceSliceSpec | None, features: Features | None) -> ResourceSliceSpec:
    """A slice's spec without the fields of disabled features."""
    return _drop(new, old, _SLICE_SPEC, features)


def _any_device(predicate: Callable[[Device], bool]) -> Callable[[ResourceSliceSpec], bool]:
    return lambda spec: any(map(predicate, spec.devices or ()))


def _each_device(change: Callable[[Device], Device]) -> Callable[[ResourceSliceSpec], ResourceSliceSpec]:
    return lambda spec: replace(spec, devices=tuple(map(change, spec.devices))) if spec.devices else spec


def _device_without(**changes: object) -> Callable[[ResourceSliceSpec], ResourceSliceSpec]:
    return _each_device(lambda device: replace(device, **changes))


def _partitions_in_use(spec: ResourceSliceSpec) -> bool:
    return (
        bool(spec.shared_counters)
        or spec.per_device_node_selection is not None
        or any(
            d.consumes_counters or d.node_name is not None or d.node_selector is not None or d.all_nodes is not None
            for d in spec.devices or ()
        )
    )


def _without_partitions(spec: ResourceSliceSpec) -> ResourceSliceSpec:
    drop = _device_without(consumes_counters=(), node_name=None, node_selector=None, all_nodes=None)
    return drop(replace(spec, shared_counters=None, per_device_node_selection=None))


def _without_policies(device: Device) -> Device:
    capacity = {name: replace(value, request_policy=None) for name, value in device.capacity.items()}
    return replace(device, allow_multiple_allocations=None, capacity=capacity)


def _groups_in_use(device: Device) -> bool:
    return any(consumption.compatibility_groups for consumption in device.consumes_counters)


def _without_groups(device: Device) -> Device:
    if not _groups_in_use(device):
        return device
    consumptions = tuple(replace(item, compatibility_groups=()) for item in device.consumes_counters)
    return replace(device, consumes_counters=consumptions)


def _is_list(attribute: DeviceAttribute) -> bool:
    return any(getattr(attribute, name) is not None for name in _NO_LISTS)


def _without_lists(device: Device) -> Device:
    attributes = {
        name: replace(value, **_NO_LISTS) if _is_list(value) else value for name, value in device.attributes.items()
    }
    return replace(device, attributes=attributes)


_SLICE_SPEC = (
    GatedFields(("DRADeviceTaints",), _any_device(lambda device: bool(device.taints)), _device_without(taints=())),
    GatedFields(("DRAPartitionableDevices",), _partitions_in_use, _without_partitions),
    GatedFields(
        ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"),
        _any_device(
            lambda device: (
                bool(device.binding_conditions or device.binding_failure_conditions) or device.binds_to_node is not None
            )
        ),
        _device_without(binding_conditions=(), binding_failure_conditions=(), binds_to_node=None),
    ),
    GatedFields(
        ("DRAConsumableCapacity",),
        _any_device(
            lambda device: (
                device.allow_multiple_allocations is not None
                or any(capacity.request_policy is not None for capacity in device.capacity.values())
            )
        ),
        _each_device(_without_policies),
    ),
    GatedFields(("DRADeviceCompatibilityGroups",), _any_device(_groups_in_use), _each_device(_without_groups)),
    GatedFields(
        ("DRANodeAllocatableResources",),
        _any_device(
            lambda device: bool(device.node_allocatable_resource_mappings or device.node_allocatable_resources)
        ),
        _device_without(node_allocatable_resource_mappings={}, node_allocatable_resources={}),
    ),
    GatedFields(
        ("DRAListTypeAttributes",),
        _any_device(lambda device: any(map(_is_list, device.attributes.values()))),
        _each_device(_without_lists),
    ),
    GatedFields(
        ("DRAPartitionableDevicesType",),
        lambda spec: spec.partition_type_attribute is not None,
        lambda spec: replace(spec, partition_type_attribute=None),
    ),
    GatedFields(
        ("DRAOptionalNodeOperations",),
        lambda spec: bool(spec.skip_node_operations),
        lambda spec: replace(spec, skip_node_operations=()),
    ),
)


# --- ResourcePoolStatusRequest ---------------------------------------------------------------------------------------


def pool_status_request(
    new: ResourcePoolStatusRequestSpec, old: ResourcePoolStatusRequestSpec | None, features: Features | None
) -> ResourcePoolStatusRequestSpec:
    """The spec of a request for the status of pools without the fields of disabled features."""
    return _drop(new, old, _POOL_STATUS_REQUEST, features)


_POOL_STATUS_REQUEST = (
    GatedFields(
        ("DRAPartitionableDevicesType",),
        lambda spec: spec.default_partition_type_attribute is not None,
        lambda spec: replace(spec, default_partition_type_attribute=None),
    ),
)


# --- DeviceClass -----------------------------------------------------------------------------------------------------


def device_class(new: DeviceClass, old: DeviceClass | None, features: Features | None) -> DeviceClass:
    """A class without the fields of disabled features."""
    return _drop(new, old, _DEVICE_CLASS, features)


_DEVICE_CLASS = (
    GatedFields(
        ("DRAExtendedResource",),
        lambda value: value.spec.extended_resource_name is not None,
        lambda value: replace(value, spec=replace(value.spec, extended_resource_name=None)),
    ),
)
