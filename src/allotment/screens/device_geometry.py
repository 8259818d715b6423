"""The card of each device, and the part of it that a partition occupies, to draw devices to scale.

A partition that consumes numbered counters (``memory-slice-3``) occupies these. A MIG device without counters is where
its name says, as NVIDIA's driver writes it; other partitions of one PCI device follow each other in equal parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple

from allotment.fleet.profiles import accelerators
from allotment.model.resource import CounterSet, Device, ResourceSlice

_NUMBERED: Final = re.compile(r"(.+?)[-_]?([0-9]+)")
#: ``gpu-0-mig-1g5gb-19-3``: the card, the number of the profile, and the first memory slice.
_MIG_NAME: Final = re.compile(r"(.+)-mig-[^-]+(?:-me)?-[0-9]+-([0-9]+)")
_PARENT: Final = "parentUUID"
_BUS: Final = ("resource.kubernetes.io/pciBusID", "pciBusID")


class DeviceGeometry(NamedTuple):
    """``card``: a name of the hardware that is equal for all of its partitions; empty for a whole device.

    ``start``, ``size`` and ``total``: the part of the card; a total of 0 if it is not known.
    """

    card: str = ""
    start: int = 0
    size: int = 0
    total: int = 0

    @property
    def span(self) -> tuple[int, int, int] | None:
        """The part of the card, if it is known."""
        return (self.start, self.size, self.total) if self.total else None


_WHOLE: Final = DeviceGeometry()


def geometry_of(slices: Iterable[ResourceSlice]) -> dict[tuple[str, str, str], DeviceGeometry]:
    """Return the geometry of the devices of slices by driver, pool and name; whole devices are left out."""
    listed = tuple(slices)
    rows: dict[tuple[str, str, str], int] = {}
    on_bus: dict[tuple[str, str, str], list[str]] = {}
    placed: list[tuple[Device, tuple[str, str], tuple[str, str, str]]] = []
    for slice_ in listed:
        pool = (slice_.spec.driver, slice_.spec.pool.name)
        rows.update({(*pool, each.name): _row_length(each) for each in slice_.spec.shared_counters or ()})
        for device in slice_.spec.devices or ():
            bus = (*pool, _text(device, *_BUS))
            on_bus.setdefault(bus, []).append(device.name)
            placed.append((device, pool, bus))
    found: dict[tuple[str, str, str], DeviceGeometry] = {}
    for device, pool, bus in placed:
        names = on_bus[bus] if bus[2] else ()
        if device.consumes_counters or len(names) > 1 or _PARENT in device.attributes:
            geometry = _geometry(device, rows, pool, bus[2], names)
            if geometry != _WHOLE:
                found[*pool, device.name] = geometry
    return found


def _geometry(
    device: Device, rows: Mapping[tuple[str, str, str], int], pool: tuple[str, str], bus: str, on_bus: Sequence[str]
) -> DeviceGeometry:
    for use in device.consumes_counters:
        return _of_counters(use.counter_set, tuple(use.counters), rows.get((*pool, use.counter_set), 0))
    if parent := _text(device, _PARENT):
        name = _MIG_NAME.fullmatch(device.name)
        size, total = _mig_sizes().get((_text(device, "productName"), _text(device, "profile")), (0, 0))
        if name is not None and total:  # the name of the card, unlike its UUID, is the same on all nodes
            return DeviceGeometry(name[1], int(name[2]), size, total)
        return DeviceGeometry(parent)
    if len(on_bus) > 1:
        return DeviceGeometry(bus, on_bus.index(device.name), 1, len(on_bus))
    return _WHOLE


@lru_cache(maxsize=4096)
def _of_counters(counter_set: str, names: tuple[str, ...], total: int) -> DeviceGeometry:
    """The part of a card that a partition occupies; equal on all nodes with equal hardware."""
    numbers = [number for name in names if (number := _number_of(name)) is not None]
    if numbers and total:
        return DeviceGeometry(counter_set, min(numbers), len(numbers), total)
    return DeviceGeometry(counter_set)


def _row_length(counter_set: CounterSet) -> int:
    """The number of counters that are numbered by position in the hardware."""
    return sum(_number_of(name) is not None for name in counter_set.counters)


@lru_cache(maxsize=4096)
def _number_of(counter: str) -> int | None:
    """The number at the end of the name of a counter. All devices of one product have counters of the same names."""
    found = _NUMBERED.fullmatch(counter)
    return int(found[2]) if found is not None else None


@cache
def _mig_sizes() -> dict[tuple[str, str], tuple[int, int]]:
    """The memory slices of a MIG device and of its card, by product and profile, as the driver publishes them."""
    return {
        (f"{prefix}{accelerator.product}", profile.name): (profile.size, accelerator.mig.memory_slices)
        for accelerator in accelerators().values()
        if accelerator.mig is not None
        for profile in accelerator.mig.profiles
        for prefix in ("", "NVIDIA ")
    }


def _text(device: Device, *names: str) -> str:
    for name in names:
        attribute = device.attributes.get(name)
        if attribute is not None and attribute.string:
            return attribute.string
    return ""
