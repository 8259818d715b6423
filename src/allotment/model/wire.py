"""Objects of ``resource.k8s.io`` as the API server writes them.

It leaves unset fields out, but not all: those without ``omitempty`` in the Go types are always there, a nil list as
``null``, and a struct that is not a pointer always opens its braces.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from allotment.model import meta, resource
from allotment.model.quantity import Quantity
from allotment.model.versions import from_v1

#: Fields that are written though empty; of those only lists, structs and numbers ever are in a valid object.
_ALWAYS: dict[type[Any], tuple[str, ...]] = {
    resource.ResourceSlice: ("metadata", "spec"),
    resource.ResourceSliceSpec: ("driver", "pool"),
    resource.ResourcePool: ("name", "generation", "resource_slice_count"),
    resource.CounterSet: ("name",),
    resource.Device: ("name",),
    resource.DeviceCounterConsumption: ("counter_set",),
    resource.DeviceCapacity: ("value",),
    resource.Counter: ("value",),
    resource.CapacityRequestPolicy: ("default",),
    resource.DeviceTaint: ("key", "effect"),
    resource.DeviceClass: ("metadata", "spec"),
    resource.ResourceClaim: ("metadata", "spec", "status"),
    resource.ResourceClaimSpec: ("devices",),
    resource.DeviceClaim: ("requests",),
    resource.DeviceRequest: ("name",),
    resource.ExactDeviceRequest: ("device_class_name",),
    resource.DeviceSubRequest: ("name", "device_class_name"),
    resource.CELDeviceSelector: ("expression",),
    resource.OpaqueDeviceConfiguration: ("driver", "parameters"),
    resource.ResourceClaimConsumerReference: ("resource", "name", "uid"),
    resource.AllocationResult: ("devices",),
    resource.DeviceRequestAllocationResult: ("request", "driver", "pool", "device"),
    resource.DeviceAllocationConfiguration: ("source",),
    resource.AllocatedDeviceStatus: ("driver", "pool", "device", "conditions"),
    resource.ResourceClaimTemplate: ("metadata", "spec"),
    resource.ResourceClaimTemplateSpec: ("metadata", "spec"),
    resource.DeviceTaintRule: ("metadata", "spec", "status"),
    resource.DeviceTaintRuleSpec: ("taint",),
    resource.ResourcePoolStatusRequest: ("metadata", "spec"),
    resource.ResourcePoolStatusRequestSpec: ("driver",),
    resource.PoolStatus: ("generation",),
    meta.OwnerReference: ("api_version", "kind", "name", "uid"),
    meta.Condition: ("type", "status", "last_transition_time", "reason", "message"),
}


def wire_tree(value: meta.Object, api_version: str) -> dict[str, Any]:
    """The whole object, ``kind`` and ``apiVersion`` first, in the shape of a version of ``resource.k8s.io``."""
    kind = type(value).__name__
    tree: dict[str, Any] = {"kind": kind, "apiVersion": api_version, **_tree(value)}
    return from_v1(tree, api_version)


def _tree(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        always = _ALWAYS.get(type(value), ())
        return {
            wire: None if item == () else _tree(item)
            for name, wire, default in _fields(type(value))
            # An empty list or map is left out even where it is told from none.
            if (item := getattr(value, name)) not in (default, (), {}) or name in always
        }
    if isinstance(value, tuple):
        return [_tree(item) for item in value]
    if isinstance(value, dict):
        return {key: _tree(value[key]) for key in sorted(value)}
    return str(value) if isinstance(value, Quantity) else value


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, Any], ...]:
    return tuple(
        (field.name, field.encode_name, {} if field.default is msgspec.NODEFAULT else field.default)
        for field in msgspec.structs.fields(kind)
    )
