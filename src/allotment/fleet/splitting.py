"""Devices and counters cut to what one ResourceSlice may hold.

A slice holds at most 128 devices, or 64 as soon as one of them consumes counters, is tainted or has a list among its
attributes; and at most eight counter sets. From Kubernetes 1.35 counters and devices must be in different slices, so
the counters come first. 1.34 wants a device's counters in the device's own slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from allotment.fleet.errors import FleetError
from allotment.model.resource import CounterSet, Device
from allotment.model.validation import attributes
from allotment.model.validation.slices import DEVICES_MAX, DEVICES_MAX_ADVANCED

MOST_DEVICES = DEVICES_MAX
MOST_ADVANCED_DEVICES = DEVICES_MAX_ADVANCED
MOST_COUNTER_SETS = 8


class Part(NamedTuple):
    """What one slice holds. A part with neither says: the driver runs, and found nothing."""

    devices: tuple[Device, ...] = ()
    counters: tuple[CounterSet, ...] = ()


def split(groups: Sequence[Sequence[Device]], counters: Sequence[CounterSet], *, together: bool) -> tuple[Part, ...]:
    """The slices of one pool, at least one: every group begins a new one.

    ``together``: the form of Kubernetes 1.34. Raises FleetError for what that form cannot say: counters of a group that
    needs two slices, or of two groups.
    """
    if together and counters:
        parts = tuple(_together(groups, counters))
    else:
        sets = tuple(counters)
        parts = (
            *(Part(counters=sets[at : at + MOST_COUNTER_SETS]) for at in range(0, len(sets), MOST_COUNTER_SETS)),
            *(Part(devices) for group in groups for devices in _cut(tuple(group))),
        )
    return parts or (Part(),)


def _cut(devices: tuple[Device, ...]) -> Iterator[tuple[Device, ...]]:
    most = MOST_ADVANCED_DEVICES if any(map(_advanced, devices)) else MOST_DEVICES
    for at in range(0, len(devices), most):
        yield devices[at : at + most]


def _advanced(device: Device) -> bool:
    return bool(device.consumes_counters or device.taints) or attributes.has_list(device)


def _together(groups: Iterable[Sequence[Device]], counters: Sequence[CounterSet]) -> Iterator[Part]:
    left = {one.name: one for one in counters}
    for group in groups:
        used = dict.fromkeys(one.counter_set for device in group for one in device.consumes_counters)
        pieces = list(_cut(tuple(group)))
        lost = next((name for name in used if name not in left), None)
        if used and (len(pieces) > 1 or len(used) > MOST_COUNTER_SETS or lost is not None):
            name = lost or next(iter(used))
            raise FleetError(
                f"Kubernetes 1.34 wants devices and their counters in one slice: {name!r} is needed in several",
                "publish fewer devices per counter set, or use Kubernetes 1.35 or newer",
            )
        yield from (Part(piece, tuple(left.pop(name) for name in used)) for piece in pieces)
    # Sets that no device consumes now; they are part of the pool all the same.
    rest = tuple(left.values())
    yield from (Part(counters=rest[at : at + MOST_COUNTER_SETS]) for at in range(0, len(rest), MOST_COUNTER_SETS))
