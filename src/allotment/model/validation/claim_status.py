"""The status of a ResourceClaim, which is written only through its subresource.

An allocation is set or cleared, never changed. A stored allocation is not validated again, because the rules have
become stricter.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Set as AbstractSet

import msgspec

from allotment.model.quoting import quote
from allotment.model.resource import (
    AllocatedDeviceStatus,
    AllocationResult,
    DeviceRequestAllocationResult,
    NetworkDeviceData,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from allotment.model.validation import names, node_operations
from allotment.model.validation.binding_conditions import binding_conditions
from allotment.model.validation.conditions import check_conditions
from allotment.model.validation.configuration import allocation_config, json_object
from allotment.model.validation.context import ValidationContext
from allotment.model.validation.errors import Errors, forbidden, immutable, invalid, required, too_long, too_many
from allotment.model.validation.gotext import size
from allotment.model.validation.lists import check_list, check_set
from allotment.model.validation.metadata import object_meta_update
from allotment.model.validation.node_selectors import node_selector
from allotment.model.validation.release import release
from allotment.model.validation.requests import RequestNames, reference, request_names
from allotment.model.validation.taints import toleration

RESULTS_MAX = 32
RESERVED_FOR_MAX = 256
CONDITIONS_MAX = 8
DATA_MAX = 10 * 1024
IPS_MAX = 16
INTERFACE_NAME_MAX = 256
HARDWARE_ADDRESS_MAX = 128


class SharedDeviceID(msgspec.Struct, frozen=True, rename="pascal"):
    """The identity of a device, or of a share of it, by which results and device statuses are matched."""

    driver: str
    pool: str
    device: str
    share_id: str = msgspec.field(name="ShareID", default="")


def shared_device_id(value: DeviceRequestAllocationResult | AllocatedDeviceStatus) -> SharedDeviceID:
    """The device, or the share of a device, of a result or a status."""
    return SharedDeviceID(value.driver, value.pool, value.device, value.share_id or "")


def claim_status_update(new: ResourceClaim, old: ResourceClaim, context: ValidationContext) -> Errors:
    """Validate a changed status; spec and metadata have been reset to the stored ones."""
    yield from object_meta_update(new.metadata, old.metadata)
    status, stored = new.status, old.status
    yield from check_set(
        status.reserved_for, RESERVED_FOR_MAX, _consumer, lambda consumer: consumer.uid, "status.reservedFor"
    )
    allocation = status.allocation
    allocated = {shared_device_id(result) for result in allocation.devices.results} if allocation else set()
    yield from check_set(
        status.devices,
        None,
        lambda value, path: _device_status(value, path, allocated, context),
        shared_device_id,
        "status.devices",
    )
    if status.reserved_for and allocation is None:
        yield forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    elif new.metadata.deletion_timestamp is not None and set(status.reserved_for) - set(stored.reserved_for):
        yield forbidden(
            "status.reservedFor",
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
        )
    if allocation is None:
        return
    if stored.allocation is None:
        yield from _allocation(allocation, request_names(new.spec.devices.requests), context)
    elif allocation != stored.allocation:
        yield immutable("status.allocation", allocation)


def _consumer(consumer: ResourceClaimConsumerReference, path: str) -> Errors:
    for name in ("resource", "name", "uid"):
        if not getattr(consumer, name):
            yield required(f"{path}.{name}")


def _allocation(allocation: AllocationResult, request_names: RequestNames, context: ValidationContext) -> Errors:
    path = "status.allocation"
    yield from check_list(
        allocation.devices.results,
        RESULTS_MAX,
        lambda result, item_path: _result(result, item_path, request_names, context),
        f"{path}.devices.results",
    )
    yield from allocation_config(allocation.devices.config, f"{path}.devices.config", request_names)
    if allocation.node_selector is not None:
        yield from node_selector(allocation.node_selector, f"{path}.nodeSelector")


def _result(
    result: DeviceRequestAllocationResult, path: str, request_names: RequestNames, context: ValidationContext
) -> Errors:
    yield from reference(result.request, f"{path}.request", request_names)
    yield from _device_id(result, path)
    yield from binding_conditions(result.binding_conditions, result.binding_failure_conditions, path)
    if release(context.features).checks_result_tolerations:
        for index, item in enumerate(result.tolerations):
            yield from toleration(item, f"{path}.tolerations[{index}]")
    if result.share_id is not None:
        yield from names.share_id(result.share_id, f"{path}.shareID")
    yield from node_operations.skipped(result.skip_node_operations, f"{path}.skipNodeOperations")


def _device_id(value: DeviceRequestAllocationResult | AllocatedDeviceStatus, path: str) -> Errors:
    yield from names.driver_name(value.driver, f"{path}.driver")
    yield from names.pool_name(value.pool, f"{path}.pool")
    yield from names.label(value.device, f"{path}.device")


def _device_status(
    value: AllocatedDeviceStatus, path: str, allocated: AbstractSet[SharedDeviceID], context: ValidationContext
) -> Errors:
    yield from _device_id(value, path)
    if value.share_id is not None:
        yield from names.share_id(value.share_id, f"{path}.shareID")
    if shared_device_id(value) not in allocated:
        yield invalid(path, shared_device_id(value), "must be an allocated device in the claim")
    if len(value.conditions) > CONDITIONS_MAX:
        yield too_many(f"{path}.conditions", len(value.conditions), CONDITIONS_MAX)
    yield from check_conditions(value.conditions, f"{path}.conditions", context.features)
    if value.data is not None:
        yield from json_object(value.data, f"{path}.data", DATA_MAX)
    if value.network_data is not None:
        yield from _network_data(value.network_data, f"{path}.networkData")


def _network_data(data: NetworkDeviceData, path: str) -> Errors:
    if size(data.interface_name) > INTERFACE_NAME_MAX:
        yield too_long(f"{path}.interfaceName", INTERFACE_NAME_MAX)
    if size(data.hardware_address) > HARDWARE_ADDRESS_MAX:
        yield too_long(f"{path}.hardwareAddress", HARDWARE_ADDRESS_MAX)
    yield from check_set(data.ips, IPS_MAX, interface_address, lambda address: address, f"{path}.ips")


def interface_address(text: str, path: str) -> Errors:
    """Validate an address with prefix length in canonical form."""
    canonical = _canonical(text)
    if canonical is None:
        yield invalid(path, text, "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)")
    elif canonical != text:
        yield invalid(path, text, f"must be in canonical form ({quote(canonical)})")


def _canonical(text: str) -> str | None:
    """The canonical form of an address with prefix length; leading zeros are allowed, as in Go's older parser."""
    address, slash, length = text.partition("/")
    if not slash or not re.fullmatch("[0-9]+", length) or not address.isascii() or "%" in address:
        return None
    head, colon, last = address.rpartition(":")
    if "." in last:
        last = ".".join(re.sub("^0+(?=[0-9])", "", part) for part in last.split("."))
    try:
        parsed = ipaddress.ip_address(head + colon + last)
    except ValueError:
        return None
    bits = int(length[:9])
    if bits > parsed.max_prefixlen:
        return None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        return f"{parsed.ipv4_mapped}/{bits - 96 if bits > 32 else bits}"
    return f"{parsed}/{bits}"
