"""ResourceSlice: create and update, with three immutable fields."""

from __future__ import annotations

from allotment.model.quoting import quote
from allotment.model.resource import Device, ResourcePool, ResourceSlice, ResourceSliceSpec
from allotment.model.validation import attributes, names, node_operations
from allotment.model.validation.context import ValidationContext
from allotment.model.validation.counters import shared_counters
from allotment.model.validation.devices import device
from allotment.model.validation.errors import Errors, immutable, invalid, required
from allotment.model.validation.gotext import GoNamedString
from allotment.model.validation.lists import check_set
from allotment.model.validation.metadata import object_meta, object_meta_update
from allotment.model.validation.node_selectors import node_selector
from allotment.model.validation.qualified_names import fully_qualified_name

DEVICES_MAX = 128
#: The limit if any device has taints, consumes counters or has a list attribute.
DEVICES_MAX_ADVANCED = 64

_ONE_OF = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_TRUE = "must be either unset or set to true"


def resource_slice(value: ResourceSlice, context: ValidationContext) -> Errors:
    """Validate a new slice."""
    yield from object_meta(value.metadata, namespaced=False)
    yield from _spec(value.spec, None, context)


def resource_slice_update(new: ResourceSlice, old: ResourceSlice, context: ValidationContext) -> Errors:
    """Validate a changed slice."""
    yield from object_meta_update(new.metadata, old.metadata)
    yield from _spec(new.spec, old.spec, context)


def _spec(spec: ResourceSliceSpec, old: ResourceSliceSpec | None, context: ValidationContext) -> Errors:
    yield from names.driver_name(spec.driver, "spec.driver")
    yield from _pool(spec.pool)
    if old is not None:
        for path, new_value, old_value in (
            ("spec.pool.name", spec.pool.name, old.pool.name),
            ("spec.driver", spec.driver, old.driver),
            ("spec.nodeName", _pointer(spec.node_name), _pointer(old.node_name)),
        ):
            if new_value != old_value:
                yield immutable(path, new_value)
    yield from _nodes(spec)
    if spec.shared_counters is not None and spec.devices is not None:
        yield invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    devices = spec.devices or ()
    advanced = any(d.taints or d.consumes_counters or attributes.has_list(d) for d in devices)
    # Of equal names the first one is the stored device.
    stored = {d.name: d for d in reversed(old.devices or ())} if old is not None else {}

    def check(value: Device, path: str) -> Errors:
        selects_nodes = spec.per_device_node_selection is True
        return device(value, stored.get(value.name), path, context, selects_nodes=selects_nodes)

    yield from check_set(
        devices, DEVICES_MAX_ADVANCED if advanced else DEVICES_MAX, check, lambda value: value.name, "spec.devices"
    )
    yield from shared_counters(spec.shared_counters or (), "spec.sharedCounters")
    if spec.partition_type_attribute is not None:
        yield from _partition_types(spec, spec.partition_type_attribute)
    yield from node_operations.skipped(spec.skip_node_operations, "spec.skipNodeOperations")


def _partition_types(spec: ResourceSliceSpec, name: str) -> Errors:
    """Validate that every device that consumes counters has its partition type, as a string, in the attribute.

    The format of the name is a declared rule.
    """
    path = "spec.partitionTypeAttribute"
    consumers = [(index, item) for index, item in enumerate(spec.devices or ()) if item.consumes_counters]
    if not consumers:
        yield invalid(path, name, "may only be set on a slice which declares devices that consume counters")
        return
    if any(True for _ in fully_qualified_name(name, path)):
        return
    for index, item in consumers:
        attribute_path = f"spec.devices[{index}].attributes[{name}]"
        # A name without a domain is in the domain of the driver; the full name has precedence.
        value = item.attributes.get(name) or item.attributes.get(name.removeprefix(f"{spec.driver}/"))
        if value is None:
            yield required(
                attribute_path,
                "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set",
            )
        elif value.string is None:
            text = "must be a string value because `partitionTypeAttribute` names this attribute"
            # The declared rule for the attribute is that it has one value.
            yield invalid(attribute_path, value, text)._replace(is_declared=False)


def _pointer(text: str | None) -> GoNamedString | None:
    return None if text is None else GoNamedString(text)


def _pool(pool: ResourcePool) -> Errors:
    yield from names.pool_name(pool.name, "spec.pool.name")
    if pool.resource_slice_count <= 0:
        yield invalid("spec.pool.resourceSliceCount", pool.resource_slice_count, "must be greater than zero")
    if pool.generation < 0:
        yield invalid("spec.pool.generation", pool.generation, "must be greater than or equal to zero")


def _nodes(spec: ResourceSliceSpec) -> Errors:
    """Validate the nodes that can use the slice's devices: exactly one of four fields."""
    chosen = []
    if spec.node_name is not None:
        if spec.node_name:
            chosen.append("`nodeName`")
            yield from names.subdomain(spec.node_name, "spec.nodeName")
        else:
            yield invalid("spec.nodeName", "", "must be either unset or set to a non-empty string")
    if spec.node_selector is not None:
        chosen.append("`nodeSelector`")
        yield from node_selector(spec.node_selector, "spec.nodeSelector")
        terms = spec.node_selector.node_selector_terms
        if len(terms) != 1:  # selectors of several slices are merged, which needs a single term
            yield invalid(
                "spec.nodeSelector.nodeSelectorTerms", terms or None, "must have exactly one node selector term"
            )
    for name, value in (
        ("allNodes", spec.all_nodes), ("perDeviceNodeSelection", spec.per_device_node_selection),
    ):  # fmt: skip
        if value:
            chosen.append(f"`{name}`")
        elif value is not None:
            yield invalid(f"spec.{name}", False, _TRUE)
    if not chosen:
        yield required("spec", _ONE_OF)
    elif len(chosen) > 1:
        yield invalid("spec", f"{{{', '.join(chosen)}}}", f"{_ONE_OF}, but multiple fields are set")


def warnings(value: ResourceSlice) -> list[str]:
    """The warnings for a valid slice: upper case in the driver name."""
    driver = value.spec.driver
    if driver == driver.lower():
        return []
    return [f"spec.driver: driver names should be lowercase; {quote(driver)} contains uppercase characters"]
