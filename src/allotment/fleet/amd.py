"""Devices as the AMD driver (``gpu.amd.com``) publishes them, in the words of 2025 (v0) and of 2026 (v1).

Both name devices by DRM card and render number, and a partition takes the numbers after its GPU's. What differs is
how a device says where it is: v0 has ``deviceID`` (unique per GPU) on GPUs but ``parentDeviceID`` on partitions; v1
has the PCI bus id on both, and its ``deviceID`` is the model's PCI id, the same on every GPU.
"""

from __future__ import annotations

from allotment.fleet.hardware import Hardware
from allotment.fleet.identity import name_number
from allotment.fleet.modes import Partitioned
from allotment.fleet.nvidia import semver
from allotment.fleet.profiles import MIB, Slot
from allotment.model.quantity import Quantity
from allotment.model.resource import Device, DeviceAttribute, DeviceCapacity

DRIVER = "gpu.amd.com"

#: Source checksum of a released amdgpu module; any text would do.
_DRIVER_SOURCE = "A27BF33B4586326D747C9FB"


def unique_id(node: str, pci: str) -> str:
    """A made-up KFD unique id: 64 bits in decimal, derived from node and PCI address."""
    return str(name_number(node + pci))


def devices_of(machine: Hardware, node: str, mode: Partitioned) -> tuple[tuple[Device, ...], ...]:
    """Every GPU or partition of a node, in one group."""
    per_gpu = mode.partition.per_gpu if mode.partition else 1
    return (
        tuple(
            _device(machine, node, mode, machine.slots[gpu], place) for gpu in machine.order for place in range(per_gpu)
        ),
    )


def _device(machine: Hardware, node: str, mode: Partitioned, slot: Slot, place: int) -> Device:
    model, partition = machine.accelerator, mode.partition
    card, render = slot.card + place, slot.render + place
    divided = partition is not None and partition.per_gpu > 1
    values = {
        "driverVersion": DeviceAttribute(version=semver(model.driver_version)),
        "productName": DeviceAttribute(string=model.product),
        "resource.kubernetes.io/pcieRoot": DeviceAttribute(string=slot.pcie_root),
        "type": DeviceAttribute(string="amdgpu-partition" if divided else "amdgpu"),
    }
    if partition is not None:
        values["partitionProfile"] = DeviceAttribute(string=partition.profile)
    if mode.vocabulary == "v0":
        identity = DeviceAttribute(string=unique_id(node, slot.pci))
        values |= {
            "parentDeviceID" if divided else "deviceID": identity,
            "parentPciAddr" if divided else "pciAddr": DeviceAttribute(string=slot.pci),
            "cardIndex": DeviceAttribute(int_=card),
            "renderIndex": DeviceAttribute(int_=render),
            "driverSrcVersion": DeviceAttribute(string=_DRIVER_SOURCE),
            "family": DeviceAttribute(string=model.family),
        }
    else:
        values |= {
            "deviceID": DeviceAttribute(string=model.pci_device),
            "driverVersionFull": DeviceAttribute(string=model.driver_version),
            "numaNode": DeviceAttribute(int_=slot.numa),
            "resource.kubernetes.io/pciBusID": DeviceAttribute(string=slot.pci),
        }
    units = (partition.compute_units, partition.simd_units) if partition else (model.compute_units, model.simd_units)
    memory = partition.memory_mib if partition else model.memory_mib
    return Device(
        name=f"gpu-{card}-{render}",
        attributes=dict(sorted(values.items())),
        capacity={
            "computeUnits": DeviceCapacity(value=Quantity.of_int(units[0])),
            "memory": DeviceCapacity(value=Quantity.binary(memory * MIB)),
            "simdUnits": DeviceCapacity(value=Quantity.of_int(units[1])),
        },
    )
