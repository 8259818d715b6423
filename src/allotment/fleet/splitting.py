"""Splitting of devices and counter sets into ResourceSlices within the limits of the API.

A slice holds at most 128 devices, or 64 as soon as one of them consumes counters, is tainted or has a list among its
attributes; and at most eight counter sets. From Kubernetes 1.35 counters and devices must be in different slices, so
the counters come first. 1.34 requires a device's counters in the same slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from allotment.fleet.errors import FleetError
from allotment.model.features import Features
from allotment.model.resource import CounterSet, Device
from allotment.model.validation import attributes
from allotment.model.validation.slices import DEVICES_MAX, DEVICES_MAX_ADVANCED

MAX_DEVICES = DEVICES_MAX
MAX_ADVANCED_DEVICES = DEVICES_MAX_ADVANCED
MAX_COUNTER_SETS = 8


class SliceContent(NamedTuple):
    """Devices and counter sets of one slice. An empty one means that the driver runs and found no devices."""

    devices: tuple[Device, ...] = ()
    counters: tuple[CounterSet, ...] = ()


def split(
    groups: Sequence[Sequence[Device]], counters: Sequence[CounterSet], features: Features
) -> tuple[SliceContent, ...]:
    """Return the content of the slices of a pool, at least one; every group begins a new slice.

    Raises FleetError if counters would be needed in several slices of Kubernetes 1.34: for a group that needs two
    slices, or for two groups.
    """
    if counters and not features.since("1.35"):
        parts = tuple(_together(groups, counters))
    else:
        sets = tuple(counters)
        parts = (
            *(SliceContent(counters=sets[at : at + MAX_COUNTER_SETS]) for at in range(0, len(sets), MAX_COUNTER_SETS)),
            *(SliceContent(devices) for group in groups for devices in _cut(tuple(group))),
        )
    return parts or (SliceContent(),)


def _cut(devices: tuple[Device, ...]) -> Iterator[tuple[Device, ...]]:
    most = MAX_ADVANCED_DEVICES if any(map(_advanced, devices)) else MAX_DEVICES
    for at in range(0, len(devices), most):
        yield devices[at : at + most]


def _advanced(device: Device) -> bool:
    return bool(device.consumes_counters or device.taints) or attributes.has_list(device)


def _together(groups: Iterable[Sequence[Device]], counters: Sequence[CounterSet]) -> Iterator[SliceContent]:
    left = {counter_set.name: counter_set for counter_set in counters}
    for group in groups:
        used = dict.fromkeys(consumed.counter_set for device in group for consumed in device.consumes_counters)
        pieces = list(_cut(tuple(group)))
        lost = next((name for name in used if name not in left), None)
        if used and (len(pieces) > 1 or len(used) > MAX_COUNTER_SETS or lost is not None):
            name = lost or next(iter(used))
            raise FleetError(
                f"Kubernetes 1.34 requires devices and their counters to be in the same slice, but counter set "
                f"{name!r} is needed in several slices",
                "publish fewer devices per counter set, or use Kubernetes 1.35 or newer",
            )
        yield from (SliceContent(piece, tuple(left.pop(name) for name in used)) for piece in pieces)
    # Counter sets that no device consumes now are part of the pool, too.
    rest = tuple(left.values())
    yield from (SliceContent(counters=rest[at : at + MAX_COUNTER_SETS]) for at in range(0, len(rest), MAX_COUNTER_SETS))
