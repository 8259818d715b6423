"""Attributes with values that are unknown before a machine runs, replaced by symbols.

A UUID or a PCI address cannot be predicted, but equality often can: all MIG devices of a GPU have the same parent. So
values are replaced by symbols that are equal if the values will be. With a measured topology, GPUs that share a PCIe
root share its symbol; otherwise it is unknown which do, and every GPU gets its own. Karpenter's attribute bindings use
the same idea: unknown but equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from allotment.fleet.hardware import Hardware
from allotment.fleet.modes import Mode, Partitioned
from allotment.model.resource import Device, DeviceAttribute, ResourceSlice

_STANDARD: Final = "resource.kubernetes.io/"
#: Topology attributes -> their name in a server's ``unverified`` list.
_TOPOLOGY: Final[Mapping[str, str]] = {
    f"{_STANDARD}pcieRoot": "PCIe roots", f"{_STANDARD}numaNode": "NUMA nodes", "numaNode": "NUMA nodes"
}  # fmt: skip
#: Attributes that identify a device.
_IDENTITY: Final = frozenset(
    ("uuid", "parentUUID", f"{_STANDARD}pciBusID", "pciAddr", "parentPciAddr", "parentDeviceID", "cardIndex",
     "renderIndex")
)  # fmt: skip
#: Attributes that identify the GPU of a device; the first that a device has is used.
_GPU: Final = (f"{_STANDARD}pciBusID", "pciAddr", "parentPciAddr")


def runtime_only(slices: Iterable[ResourceSlice], mode: Mode) -> frozenset[str]:
    """Return the attributes in these slices whose values are symbols."""
    names = _IDENTITY | _TOPOLOGY.keys()
    # In AMD's 2025 driver, deviceID identifies the GPU; in the 2026 driver, it identifies the model.
    if isinstance(mode, Partitioned) and mode.vocabulary == "v0":
        names |= {"deviceID"}
    return frozenset(name for device in _devices(slices) for name in device.attributes if name in names)


def unmeasured(machine: Hardware) -> frozenset[str]:
    """Return the attributes for which it is unknown which GPUs of this machine have equal values."""
    if len(machine.slots) == 1:
        return frozenset()  # a single GPU has no other to compare with
    server = machine.server
    return frozenset(name for name, fact in _TOPOLOGY.items() if server is None or fact in server.unverified)


def symbolic(
    slices: tuple[ResourceSlice, ...], names: frozenset[str], unmeasured: frozenset[str]
) -> tuple[ResourceSlice, ...]:
    """Return the slices with symbols as values of ``names``: ``<uuid-3>``, or integers for integer attributes.

    ``unmeasured``: attributes where every GPU gets its own symbol.
    """
    symbols: dict[tuple[str, object], DeviceAttribute] = {}
    counts: dict[str, int] = {}

    def symbol(name: str, value: DeviceAttribute, gpu: str) -> DeviceAttribute:
        key = (name, gpu if name in unmeasured else value)
        if key not in symbols:
            number = counts[name] = counts.get(name, -1) + 1
            whole = value.int_ is not None
            text = None if whole else f"<{name.removeprefix(_STANDARD)}-{number}>"
            symbols[key] = DeviceAttribute(int_=number) if whole else DeviceAttribute(string=text)
        return symbols[key]

    def changed(device: Device) -> Device:
        gpu = next((attribute.string for name in _GPU if (attribute := device.attributes.get(name)) is not None), None)
        attributes = {
            name: symbol(name, value, gpu or device.name) if name in names else value
            for name, value in device.attributes.items()
        }
        return msgspec.structs.replace(device, attributes=attributes)

    return tuple(
        msgspec.structs.replace(
            slice_, spec=msgspec.structs.replace(slice_.spec, devices=tuple(map(changed, slice_.spec.devices)))
        )
        if slice_.spec.devices
        else slice_
        for slice_ in slices
    )


def _devices(slices: Iterable[ResourceSlice]) -> Iterator[Device]:
    for slice_ in slices:
        yield from slice_.spec.devices or ()
