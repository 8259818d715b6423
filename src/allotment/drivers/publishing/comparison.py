"""What a slice should hold against what a server holds: taints keep their times; fields behind a gate may be gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from allotment.model.resource import Device, DeviceTaint, ResourcePool, ResourceSliceSpec
from allotment.model.trees import to_tree

#: Which gate a field of a slice is behind.
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


def same_content(one: ResourceSliceSpec, other: ResourceSliceSpec) -> bool:
    """Whether two slices hold the same; their pools' generation and number of slices aside."""
    return _content(one) == _content(other)


def _content(spec: ResourceSliceSpec) -> ResourceSliceSpec:
    return replace(
        spec, pool=_NO_POOL, devices=spec.devices or None, shared_counters=spec.shared_counters or None
    )  # fmt: skip


def with_taint_times(spec: ResourceSliceSpec, present: Iterable[ResourceSliceSpec], now: str) -> ResourceSliceSpec:
    """The slice with every taint since when it has been there: a taint that was published is not a new one.

    A new time would start every eviction that waits for a toleration to end from the beginning (KEP-5055).
    """
    if not any(device.taints for device in spec.devices or ()):
        return spec
    # ``present`` is read only now: most slices have no taints, and reading them costs.
    known = {
        (device.name, taint.key, taint.value, taint.effect): taint.time_added
        for one in present for device in one.devices or () for taint in device.taints
    }  # fmt: skip

    def timed(device: Device, taint: DeviceTaint) -> DeviceTaint:
        since = known.get((device.name, taint.key, taint.value, taint.effect)) or taint.time_added or now
        return replace(taint, time_added=since)

    return replace(
        spec,
        devices=tuple(
            replace(device, taints=tuple(timed(device, taint) for taint in device.taints)) if device.taints else device
            for device in spec.devices or ()
        ),
    )


def dropped_fields(asked: ResourceSliceSpec, kept: ResourceSliceSpec) -> str:
    """The fields that a server left out, and the gates that they are behind; empty if it kept all.

    >>> from allotment.model.resource import DeviceAttribute
    >>> device = Device(name="d", taints=(DeviceTaint(key="k", effect="NoSchedule"),))
    >>> dropped(ResourceSliceSpec(devices=(device,)), ResourceSliceSpec(devices=(Device(name="d"),)))
    'devices[].taints (gate DRADeviceTaints)'
    """
    fields = dict.fromkeys(_dropped_fields(to_tree(asked), to_tree(kept), ""))
    return ", ".join(fields)


def _dropped_fields(asked: Any, kept: Any, path: str) -> Iterator[str]:
    if isinstance(asked, dict) and isinstance(kept, dict):
        for name, value in asked.items():
            at = f"{path}.{name}" if path else name
            if name in kept:
                yield from _dropped_fields(value, kept[name], at)
            else:
                yield f"{at} (gate {_GATES[name]})" if name in _GATES else at
    elif isinstance(asked, list) and isinstance(kept, list):
        for one, other in zip(asked, kept, strict=False):
            yield from _dropped_fields(one, other, f"{path}[]")
        if len(kept) < len(asked):
            yield f"{path}[]"
