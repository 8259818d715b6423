"""Devices to ResourceSlices: one pool per node, cut to the API's limits.

A slice holds at most 128 devices, or 64 as soon as one of them consumes counters; a counters slice holds at most
eight sets. From Kubernetes 1.35 counters and devices must be in different slices, so the counters come first; 1.34
wants them together, one slice per GPU. The index in a slice's name keeps the scheduler's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from allotment.fleet import amd, nvidia
from allotment.fleet.errors import FleetError
from allotment.fleet.hardware import Hardware
from allotment.fleet.modes import DynamicMig, Mode, Partitioned
from allotment.model.features import RELEASES
from allotment.model.meta import ObjectMeta
from allotment.model.resource import CounterSet, Device, ResourcePool, ResourceSlice, ResourceSliceSpec

MOST_DEVICES = 128
MOST_COUNTING_DEVICES = 64
MOST_COUNTER_SETS = 8


def slices_of(machine: Hardware, mode: Mode, node: str, kube: str = "1.36") -> tuple[ResourceSlice, ...]:
    """What the driver on ``node`` would publish, in the form that Kubernetes ``kube`` accepts.

    >>> from allotment.fleet.hardware import hardware
    >>> from allotment.fleet.modes import parse_mode
    >>> t4 = hardware("t4-4x-pcie")
    >>> [device.name for device in slices_of(t4, parse_mode("", t4), "n1")[0].spec.devices]
    ['gpu-0', 'gpu-1', 'gpu-2', 'gpu-3']
    """
    if kube not in RELEASES:
        raise FleetError(f"Kubernetes release: wanted one of {', '.join(RELEASES)}, found {kube!r}")
    if isinstance(mode, Partitioned):
        return _pool(amd.DRIVER, node, ({"devices": part} for part in _cut(amd.devices_of(machine, node, mode))))
    groups = nvidia.devices_of(machine, node, mode)
    if not isinstance(mode, DynamicMig):
        return _pool(nvidia.DRIVER, node, ({"devices": part} for part in _cut(groups)))
    sets = nvidia.counter_sets(machine)
    if kube == "1.34":
        return _pool(nvidia.DRIVER, node, _together(sets, groups))
    return _pool(
        nvidia.DRIVER,
        node,
        [
            *({"shared_counters": sets[at : at + MOST_COUNTER_SETS]} for at in range(0, len(sets), MOST_COUNTER_SETS)),
            *({"devices": part} for part in _cut(groups)),
        ],
    )


def _together(sets: Sequence[CounterSet], groups: Sequence[tuple[Device, ...]]) -> Iterable[dict[str, Any]]:
    for counter_set, devices in zip(sets, groups, strict=True):
        first, *more = _cut((devices,))
        yield {"shared_counters": (counter_set,), "devices": first}
        yield from ({"devices": part} for part in more)


def _cut(groups: Iterable[tuple[Device, ...]]) -> Iterable[tuple[Device, ...]]:
    for devices in groups:
        most = MOST_COUNTING_DEVICES if any(device.consumes_counters for device in devices) else MOST_DEVICES
        for at in range(0, len(devices), most):
            yield devices[at : at + most]


def _pool(driver: str, node: str, contents: Iterable[dict[str, Any]]) -> tuple[ResourceSlice, ...]:
    parts = list(contents)
    pool = ResourcePool(name=node, generation=1, resource_slice_count=len(parts))
    return tuple(
        ResourceSlice(
            metadata=ObjectMeta(name=f"{index:05}-{driver}-{node}"),
            spec=ResourceSliceSpec(driver=driver, node_name=node, pool=pool, **part),
        )
        for index, part in enumerate(parts)
    )
