"""Projections of devices to the values that expressions read: keys for devices that are equal for an expression."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import Final, TypeAlias

from allotment.cel import DevicePath, content_key
from allotment.engine.cluster.devices import DeviceRecord, quantity_key

#: A function that returns some values of a device, as a key for devices that are equal in these values.
Projection: TypeAlias = Callable[[DeviceRecord], Hashable]


def _all_values(record: DeviceRecord) -> Hashable:
    return content_key(record.id.driver, record.device)


#: The projection to everything that expressions can read.
ALL_VALUES: Final[Projection] = _all_values


def projection(paths: Collection[DevicePath] | None) -> Projection:
    """The projection of devices of one driver, with equal traits, to the values at these paths; ``None`` for all."""
    if paths is None:
        return ALL_VALUES
    keys: list[tuple[bool, str, str, str]] = []
    for path in sorted(paths):
        match path:
            case ("driver",) | ("allowMultipleAllocations",):
                pass  # always part of the key
            case ("attributes" | "capacity", domain, name):
                keys.append((path[0] == "capacity", f"{domain}/{name}", domain, name))
            case _:
                return ALL_VALUES

    def project(record: DeviceRecord) -> Hashable:
        device, driver = record.device, record.id.driver
        if not record.is_cel_convertible:
            return ALL_VALUES(record)
        found: list[Hashable] = []
        for is_capacity, full, domain, name in keys:
            for key in (full, name) if domain == driver else (full,):
                if not is_capacity:
                    found.append(device.attributes.get(key))
                elif (capacity := device.capacity.get(key)) is None:
                    found.append(None)
                else:
                    found.append(quantity_key(capacity.value))
        return tuple(found)

    return project
