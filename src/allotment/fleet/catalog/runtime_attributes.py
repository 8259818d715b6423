"""Attributes whose values nobody knows before a machine runs, replaced by symbols.

A UUID or a PCI address cannot be predicted, but equality often can: all pieces of one GPU have one parent. So values
are replaced by symbols, equal where the values will be equal. Where the topology of a server was measured, GPUs that
share a PCIe root there share its symbol; elsewhere nobody knows which GPUs do, and every GPU gets one of its own.
Karpenter has the same thought in its attribute bindings: unknown, but equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from allotment.fleet.hardware import Hardware
from allotment.fleet.modes import Mode, Partitioned
from allotment.model.resource import Device, DeviceAttribute, ResourceSlice

_STANDARD: Final = "resource.kubernetes.io/"
#: Which GPUs sit near each other, and what a server's profile calls it where it was not seen.
_TOPOLOGY: Final[Mapping[str, str]] = {
    f"{_STANDARD}pcieRoot": "PCIe roots", f"{_STANDARD}numaNode": "NUMA nodes", "numaNode": "NUMA nodes"
}  # fmt: skip
#: Which one of its kind a device is.
_IDENTITY: Final = frozenset(
    ("uuid", "parentUUID", f"{_STANDARD}pciBusID", "pciAddr", "parentPciAddr", "parentDeviceID", "cardIndex",
     "renderIndex")
)  # fmt: skip
#: By what devices of one GPU are known to be that; the first that a device has counts.
_GPU: Final = (f"{_STANDARD}pciBusID", "pciAddr", "parentPciAddr")


def runtime_only(slices: Iterable[ResourceSlice], mode: Mode) -> frozenset[str]:
    """The attributes in these slices that have symbols for values."""
    names = _IDENTITY | _TOPOLOGY.keys()
    # AMD's driver of 2025 numbered its GPUs by it; that of 2026 says the model.
    if isinstance(mode, Partitioned) and mode.vocabulary == "v0":
        names |= {"deviceID"}
    return frozenset(name for device in _devices(slices) for name in device.attributes if name in names)


def unmeasured(machine: Hardware) -> frozenset[str]:
    """The attributes of which nobody knows for which GPUs of this machine they are equal."""
    if len(machine.slots) == 1:
        return frozenset()  # which has nothing to be near to
    server = machine.server
    return frozenset(name for name, fact in _TOPOLOGY.items() if server is None or fact in server.unverified)


def symbolic(
    slices: tuple[ResourceSlice, ...], names: frozenset[str], unmeasured: frozenset[str]
) -> tuple[ResourceSlice, ...]:
    """The slices with symbols for the values of ``names``: ``<uuid-3>``, and whole numbers stay such.

    ``unmeasured``: those where every GPU gets its own.
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
        gpu = next((one.string for name in _GPU if (one := device.attributes.get(name)) is not None), None)
        attributes = {
            name: symbol(name, value, gpu or device.name) if name in names else value
            for name, value in device.attributes.items()
        }
        return msgspec.structs.replace(device, attributes=attributes)

    return tuple(
        msgspec.structs.replace(
            one, spec=msgspec.structs.replace(one.spec, devices=tuple(map(changed, one.spec.devices)))
        )
        if one.spec.devices
        else one
        for one in slices
    )


def _devices(slices: Iterable[ResourceSlice]) -> Iterator[Device]:
    for one in slices:
        yield from one.spec.devices or ()
