"""``SliceDecoder``: decodes ResourceSlices, most of whose devices are equal but for a few fields, into shared objects.

A fleet has hundreds of thousands of devices and a handful of kinds: capacities and counters are decoded once for each
kind, and equal attributes take memory once. The values are those that decoding without it gives.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from allotment.model.resource import Device, DeviceAttribute, ResourceSlice
from allotment.model.trees import Tree, read_value

#: The fields of devices that are equal for devices of one kind.
_COMMON: Final = ("capacity", "consumesCounters")
#: Values of each sort that are kept to be shared; then all are forgotten, which costs only memory.
_MOST: Final = 10_000


class SliceDecoder:
    """The parts of devices that have been decoded. Used by one thread at a time."""

    def __init__(self) -> None:
        self._parts: dict[bytes, Device] = {}
        self._attributes: dict[DeviceAttribute, DeviceAttribute] = {}

    def value(self, tree: Tree) -> ResourceSlice:
        """Decode a slice. Raises ``msgspec.ValidationError`` and ``QuantityError``."""
        devices = _devices_of(tree)
        if not devices:
            return read_value(tree, ResourceSlice)
        own = [{name: value for name, value in device.items() if name not in _COMMON} for device in devices]
        value = read_value({**tree, "spec": {**tree["spec"], "devices": own}}, ResourceSlice)
        pairs = zip(value.spec.devices or (), devices, strict=True)
        completed = tuple([self._completed(device, written) for device, written in pairs])
        return replace(value, spec=replace(value.spec, devices=completed))

    def _completed(self, device: Device, written: Tree) -> Device:
        parts = self._parts_of({name: written[name] for name in _COMMON if name in written})
        return replace(
            device,
            attributes={name: self._shared(value) for name, value in device.attributes.items()},
            capacity=parts.capacity,
            consumes_counters=parts.consumes_counters,
        )

    def _parts_of(self, written: Tree) -> Device:
        key = msgspec.json.encode(written)
        known = self._parts.get(key)
        if known is None:
            if len(self._parts) >= _MOST:
                self._parts.clear()
            known = self._parts[key] = read_value(written, Device)
        return known

    def _shared(self, attribute: DeviceAttribute) -> DeviceAttribute:
        known = self._attributes.get(attribute)
        if known is None:
            if len(self._attributes) >= _MOST:
                self._attributes.clear()
            known = self._attributes[attribute] = attribute
        return known


def _devices_of(tree: Tree) -> list[dict[str, Any]]:
    """The devices as they are written; empty if they are not a list of objects."""
    spec = tree.get("spec")
    devices = spec.get("devices") if isinstance(spec, dict) else None
    if not isinstance(devices, list) or not all(isinstance(device, dict) for device in devices):
        return []
    return devices
