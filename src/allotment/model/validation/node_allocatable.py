"""The node's cpu, memory and huge pages that a device represents or takes (KEP-5517, alpha).

1.36 has ``nodeAllocatableResourceMappings``, 1.37 has ``nodeAllocatableResources`` instead; that exactly one of
``capacityKey`` and ``deviceMultiplier`` is set is a declared rule.
"""

from __future__ import annotations

from collections.abc import Mapping

from allotment.model.quantity import Quantity
from allotment.model.resource import (
    DeviceCapacity,
    NodeAllocatableMapping,
    NodeAllocatableOverhead,
    NodeAllocatableResource,
    NodeAllocatableResourceMapping,
)
from allotment.model.validation import names
from allotment.model.validation.errors import Errors, invalid, not_found, required
from allotment.model.validation.gotext import GoNamedString

_NOT_ALLOCATABLE = "must be a node allocatable resource name"


def resource_mappings(
    mappings: Mapping[str, NodeAllocatableResourceMapping], capacity: Mapping[str, DeviceCapacity], path: str
) -> Errors:
    """Validate the node resources that a device represents, as 1.36 has them."""
    for name in sorted(mappings):
        item_path, mapping = f"{path}[{name}]", mappings[name]
        if not names.is_native_resource(name):
            yield invalid(item_path, GoNamedString(name), _NOT_ALLOCATABLE)
        multiplier, key = mapping.allocation_multiplier, mapping.capacity_key
        if multiplier is None and key is None:
            yield invalid(item_path, "", "at least one of allocationMultiplier or capacityKey must be set")
        if multiplier is not None and multiplier.sign() <= 0:
            yield invalid(f"{item_path}.allocationMultiplier", str(multiplier), "must be positive")
        if key == "":
            yield invalid(f"{item_path}.capacityKey", "", "capacityKey must not be an empty string")
        elif key is not None and key not in capacity:
            yield not_found(f"{item_path}.capacityKey", GoNamedString(key))


def allocatable_resources(
    resources: Mapping[str, NodeAllocatableResource], capacity: Mapping[str, DeviceCapacity], path: str
) -> Errors:
    """Validate the node resources that an allocation of a device takes, as 1.37 has them."""
    for name in sorted(resources):
        item_path, resource = f"{path}[{name}]", resources[name]
        if not names.is_allocatable_resource(name):
            yield invalid(item_path, GoNamedString(name), _NOT_ALLOCATABLE)
        if resource.mapping is None and resource.overhead is None:
            yield required(item_path, "at least one of mapping or overhead must be set")
        if resource.mapping is not None:
            yield from _mapping(resource.mapping, capacity, f"{item_path}.mapping")
        if resource.overhead is not None:
            yield from _overhead(resource.overhead, f"{item_path}.overhead")


def _mapping(mapping: NodeAllocatableMapping, capacity: Mapping[str, DeviceCapacity], path: str) -> Errors:
    key, multiplier = mapping.capacity_key, mapping.capacity_multiplier
    if key is not None:
        yield from _capacity_key(key, capacity, path)
        if multiplier is None:
            yield required(f"{path}.capacityMultiplier", "capacityMultiplier is required when capacityKey is set")
        else:
            yield from _positive(multiplier, f"{path}.capacityMultiplier")
    if mapping.device_multiplier is not None:
        yield from _positive(mapping.device_multiplier, f"{path}.deviceMultiplier")
    if multiplier is not None and key is None:
        yield required(f"{path}.capacityKey", "capacityKey is required when capacityMultiplier is set")


def _overhead(overhead: NodeAllocatableOverhead, path: str) -> Errors:
    if overhead.per_pod is None and overhead.per_container is None:
        yield invalid(path, "", "at least one of perPod or perContainer must be set")
    for name, amount in (("perPod", overhead.per_pod), ("perContainer", overhead.per_container)):
        if amount is not None and amount.sign() < 0:
            yield invalid(f"{path}.{name}", str(amount), "must be non-negative")


def _capacity_key(key: str, capacity: Mapping[str, DeviceCapacity], path: str) -> Errors:
    if not key:
        yield invalid(f"{path}.capacityKey", "", "capacityKey must not be an empty string")
    elif key not in capacity:
        yield not_found(f"{path}.capacityKey", GoNamedString(key))


def _positive(amount: Quantity, path: str) -> Errors:
    if amount.sign() <= 0:
        yield invalid(path, str(amount), "must be positive")
