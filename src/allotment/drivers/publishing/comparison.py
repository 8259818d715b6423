"""Comparison of desired slices with those of the API server, which may drop fields of disabled feature gates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from allotment.model.resource import Device, DeviceTaint, ResourcePool, ResourceSliceSpec
from allotment.model.trees import to_tree

#: The feature gate of each gated field in a slice.
_GATES: Final = {
    "allowMultipleAllocations": "DRAConsumableCapacity",
    "bindingConditions": "DRADeviceBindingConditions",
    "bindingFailureConditions": "DRADeviceBindingConditions",
    "bindsToNode": "DRADeviceBindingConditions",
    "bools": "DRAListTypeAttributes",
    "consumesCounters": "DRAPartitionableDevices",
    "ints": "DRAListTypeAttributes",
    "nodeAllocatableResourceMappings": "DRANodeAllocatableResources",
    "perDeviceNodeSelection": "DRAPartitionableDevices",
    "requestPolicy": "DRAConsumableCapacity",
    "sharedCounters": "DRAPartitionableDevices",
    "strings": "DRAListTypeAttributes",
    "taints": "DRADeviceTaints",
    "versions": "DRAListTypeAttributes",
}
_NO_POOL: Final = ResourcePool()


def same_content(a: ResourceSliceSpec, b: ResourceSliceSpec) -> bool:
    """Whether two slices have the same content, except for generation and number of slices of their pools."""
    return _content(a) == _content(b)


def _content(spec: ResourceSliceSpec) -> ResourceSliceSpec:
    return replace(
        spec, pool=_NO_POOL, devices=spec.devices or None, shared_counters=spec.shared_counters or None
    )  # fmt: skip


def with_taint_times(spec: ResourceSliceSpec, present: Iterable[ResourceSliceSpec], now: str) -> ResourceSliceSpec:
    """Return the slice with the time of each taint that is already published.

    A new time would restart all evictions that wait for a toleration to expire (KEP-5055).
    """
    if not any(device.taints for device in spec.devices or ()):
        return spec
    # ``present`` is read only here: most slices have no taints, and decoding them is expensive.
    known = {
        (device.name, taint.key, taint.value, taint.effect): taint.time_added
        for spec in present for device in spec.devices or () for taint in device.taints
    }  # fmt: skip

    def with_time(device: Device, taint: DeviceTaint) -> DeviceTaint:
        since = known.get((device.name, taint.key, taint.value, taint.effect)) or taint.time_added or now
        return replace(taint, time_added=since)

    return replace(
        spec,
        devices=tuple(
            replace(device, taints=tuple(with_time(device, taint) for taint in device.taints))
            if device.taints
            else device
            for device in spec.devices or ()
        ),
    )


def dropped_fields(sent: ResourceSliceSpec, stored: ResourceSliceSpec) -> str:
    """Return the fields that the server dropped, with their gates; empty if it stored all.

    >>> from allotment.model.resource import DeviceAttribute
    >>> device = Device(name="d", taints=(DeviceTaint(key="k", effect="NoSchedule"),))
    >>> dropped_fields(ResourceSliceSpec(devices=(device,)), ResourceSliceSpec(devices=(Device(name="d"),)))
    'devices[].taints (gate DRADeviceTaints)'
    """
    fields = dict.fromkeys(_dropped_fields(to_tree(sent), to_tree(stored), ""))
    return ", ".join(fields)


def _dropped_fields(sent: Any, stored: Any, path: str) -> Iterator[str]:
    if isinstance(sent, dict) and isinstance(stored, dict):
        for name, value in sent.items():
            field_path = f"{path}.{name}" if path else name
            if name in stored:
                yield from _dropped_fields(value, stored[name], field_path)
            else:
                yield f"{field_path} (gate {_GATES[name]})" if name in _GATES else field_path
    elif isinstance(sent, list) and isinstance(stored, list):
        for sent_item, stored_item in zip(sent, stored, strict=False):
            yield from _dropped_fields(sent_item, stored_item, f"{path}[]")
        if len(stored) < len(sent):
            yield f"{path}[]"
