"""The devices of a ResourceSlice."""

from __future__ import annotations

from allotment.model.resource import Device
from allotment.model.validation import attributes, names
from allotment.model.validation.binding_conditions import binding_conditions
from allotment.model.validation.capacity_policy import exclusive_capacity, shareable_capacity
from allotment.model.validation.context import ValidationContext
from allotment.model.validation.counters import consumes_counters
from allotment.model.validation.errors import Errors, invalid, required
from allotment.model.validation.lists import check_list, check_map
from allotment.model.validation.node_allocatable import allocatable_resources, resource_mappings
from allotment.model.validation.node_selectors import node_selector
from allotment.model.validation.qualified_names import NAME_MAX, qualified_name
from allotment.model.validation.release import release
from allotment.model.validation.taints import TAINTS_MAX, taint

ENTRIES_MAX = 32
VALUES_MAX = 48

_ONE_OF = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_NONE_OF = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)


def device(value: Device, old: Device | None, path: str, context: ValidationContext, *, selects_nodes: bool) -> Errors:
    """Validate one device; ``old``: the device of this name in the stored slice."""
    yield from names.label(value.name, f"{path}.name")
    entries = len(value.attributes) + len(value.capacity)
    if entries > ENTRIES_MAX:
        yield invalid(path, entries, f"the total number of attributes and capacities must not exceed {ENTRIES_MAX}")
    values = attributes.value_count(value)
    if values > VALUES_MAX:
        yield invalid(path, values, f"the total number of attribute values must not exceed {VALUES_MAX}")
    yield from check_map(value.attributes, None, NAME_MAX, qualified_name, attributes.attribute, f"{path}.attributes")
    if old is None or old.capacity != value.capacity or not release(context.features).keeps_capacity:
        yield from _capacity(value, f"{path}.capacity", context)
    # Unchanged taints can have effects that are unknown to this release.
    if old is None or old.taints != value.taints:
        yield from check_list(value.taints, TAINTS_MAX, taint, f"{path}.taints")
    yield from consumes_counters(value.consumes_counters, f"{path}.consumesCounters")
    if selects_nodes:
        yield from _nodes(value, path)
    elif value.node_name is not None or value.node_selector is not None or value.all_nodes is not None:
        yield invalid(path, None, _NONE_OF)
    yield from binding_conditions(value.binding_conditions, value.binding_failure_conditions, path)
    yield from resource_mappings(
        value.node_allocatable_resource_mappings, value.capacity, f"{path}.nodeAllocatableResourceMappings"
    )
    yield from allocatable_resources(
        value.node_allocatable_resources, value.capacity, f"{path}.nodeAllocatableResources"
    )


def _capacity(value: Device, path: str, context: ValidationContext) -> Errors:
    check = shareable_capacity if value.allow_multiple_allocations else exclusive_capacity
    return check_map(
        value.capacity, None, NAME_MAX, qualified_name, lambda capacity, key: check(capacity, key, context), path
    )


def _nodes(value: Device, path: str) -> Errors:
    """Validate the nodes that can use a device, in a slice with perDeviceNodeSelection."""
    chosen = []
    if value.node_name is not None:
        if value.node_name:
            chosen.append("`nodeName`")
            yield from names.subdomain(value.node_name, f"{path}.nodeName")
        else:
            yield invalid(f"{path}.nodeName", "", "must not be empty")
    if value.node_selector is not None:
        chosen.append("`nodeSelector`")
        yield from node_selector(value.node_selector, f"{path}.nodeSelector")
    if value.all_nodes is not None:
        if value.all_nodes:
            chosen.append("`allNodes`")
        else:
            yield invalid(f"{path}.allNodes", False, "must be either unset or set to true")
    if not chosen:
        yield required(path, _ONE_OF)
    elif len(chosen) > 1:
        yield invalid(path, f"{{{', '.join(chosen)}}}", _ONE_OF)
