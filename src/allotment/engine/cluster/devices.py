"""Published devices and their interned traits.

A fleet has thousands of devices and a handful of models. ``Traits`` hold everything that allocation reads except names
and attributes: taints, capacity, counters, sharing, binding conditions. Devices with equal traits share one object, and
a node's *layout* (see `layout`) consists of them.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Hashable, Mapping
from typing import Final, NamedTuple

import msgspec

from allotment.engine.cluster.identity import DeviceID
from allotment.model.quantity import Quantity
from allotment.model.resource import Device, DeviceCapacity, DeviceTaint, ResourceSlice
from allotment.model.semver import Semver, SemverError

#: Interned objects (traits, layouts, patterns) that a table keeps before it is cleared. Equal values are then interned
#: again under a new number, which costs only work: numbers are never reused.
MAX_INTERNED: Final = 50_000


class Consumption(NamedTuple):
    """The amount that a device consumes of one counter while it is allocated, in nano units."""

    counter_set: str
    counter: str
    amount: int


class GroupMembership(NamedTuple):
    """The compatibility groups of a device in one counter set; none if it is compatible only with devices without."""

    counter_set: str
    groups: tuple[str, ...]


class Traits:
    """Everything that allocation reads of a device except its name and attributes; compared by identity."""

    __slots__ = ("binding", "capacity", "counters", "groups", "limits", "number", "shareable", "taints")

    def __init__(
        self,
        number: int,
        taints: tuple[DeviceTaint, ...],
        capacity: Mapping[str, DeviceCapacity],
        counters: tuple[Consumption, ...],
        groups: tuple[GroupMembership, ...],
        shareable: bool,
        binding: bool,
    ) -> None:
        self.number = number
        self.taints = taints
        """Taints of the driver, followed by those of DeviceTaintRules."""
        self.capacity = capacity
        self.counters = counters
        self.groups = groups
        """One entry per counter set that the device consumes; empty if DRADeviceCompatibilityGroups is off."""
        self.shareable = shareable
        """``allowMultipleAllocations``, if DRAConsumableCapacity is on."""
        self.binding = binding
        """Whether the device has binding conditions."""
        self.limits = {name: amount.value.nano for name, amount in sorted(capacity.items())}
        """Capacity in nano units, by name in sorted order: the order of every vector of amounts."""


class DeviceRecord:
    """One published device, with its slice."""

    __slots__ = ("device", "id", "is_cel_convertible", "slice", "traits")

    def __init__(
        self, id: DeviceID, device: Device, slice: ResourceSlice, traits: Traits, is_cel_convertible: bool
    ) -> None:
        self.id = id
        self.device = device
        self.slice = slice
        self.traits = traits
        self.is_cel_convertible = is_cel_convertible
        """Whether CEL can convert all attributes. If not, every selector fails on the device."""


def quantity_key(amount: Quantity) -> Hashable:
    """A key for a quantity that preserves its notation, which CEL and results show in addition to the value."""
    return amount.mantissa, amount.scale, amount.is_small, amount.format


_encode = msgspec.json.Encoder(enc_hook=str).encode


class TraitsTable:
    """Interns traits: devices with equal values get the same object."""

    def __init__(self, capacity_enabled: bool, groups_enabled: bool) -> None:
        self._capacity_enabled = capacity_enabled
        self._groups_enabled = groups_enabled
        self._known: dict[object, Traits] = {}
        self._numbers = itertools.count()

    def of(self, device: Device, rule_taints: tuple[DeviceTaint, ...]) -> Traits:
        """The traits of a device with the taints of rules added."""
        taints = device.taints + rule_taints
        groups: tuple[GroupMembership, ...] = ()
        if self._groups_enabled and device.consumes_counters:
            groups = tuple(
                GroupMembership(use.counter_set, tuple(sorted(set(use.compatibility_groups))))
                for use in device.consumes_counters
            )
        key = (
            tuple((t.key, t.value, t.effect) for t in taints),
            tuple(
                [
                    (name, quantity_key(amount.value), amount.request_policy and _encode(amount.request_policy))
                    for name, amount in device.capacity.items()
                ]
            ),
            tuple(
                [
                    (use.counter_set, tuple([(name, counter.value.nano) for name, counter in use.counters.items()]))
                    for use in device.consumes_counters
                ]
            ),
            groups,
            device.allow_multiple_allocations is True,
            bool(device.binding_conditions),
        )
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MAX_INTERNED:
                self._known.clear()
            found = self._known[key] = Traits(
                next(self._numbers),
                taints,
                device.capacity,
                tuple(
                    Consumption(use.counter_set, name, counter.value.nano)
                    for use in device.consumes_counters
                    for name, counter in use.counters.items()
                ),
                groups,
                self._capacity_enabled and device.allow_multiple_allocations is True,
                bool(device.binding_conditions),
            )
        return found


def is_cel_convertible(device: Device, lists: bool) -> bool:
    """Whether CEL can convert all attributes of a device; ``lists``: whether DRAListTypeAttributes is on."""
    for value in device.attributes.values():
        if value.string is None and value.int_ is None and value.bool_ is None:
            if value.version is not None:
                if not _is_version(value.version):
                    return False
            elif not lists or not (value.ints or value.strings or value.bools):
                return False
    return True


@functools.lru_cache(maxsize=4096)
def _is_version(text: str) -> bool:
    try:
        Semver.parse(text)
    except SemverError:
        return False
    return True
