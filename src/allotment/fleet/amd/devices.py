"""GPUs and partitions in their current mode, with the attribute names of 2025 (v0) and of 2026 (v1).

Both name devices by DRM card and render number. They differ in the attributes that identify a GPU: v0 has ``deviceID``
(unique per GPU) on GPUs but ``parentDeviceID`` on partitions, so a constraint on ``deviceID`` finds no two partitions;
v1 has the PCI bus id on both, and its ``deviceID`` is the model's PCI id, the same on every GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from allotment.fleet.amd.gpu import Gpu, GpuPartition
from allotment.fleet.modes import Vocabulary
from allotment.model.quantity import Quantity
from allotment.model.resource import Device, DeviceAttribute, DeviceCapacity

#: Maximum length of a string attribute.
_LONGEST = 64
_VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,2}")


def devices_of_gpus(gpus: Iterable[Gpu], vocabulary: Vocabulary) -> tuple[Device, ...]:
    """Return every GPU, or every partition of a partitioned GPU."""
    return tuple(
        Device(
            name=name_of(part),
            attributes=dict(sorted(_attributes(gpu, part, vocabulary).items())),
            capacity=capacities(part.compute_units, part.simd_units, part.memory_bytes),
        )
        for gpu in gpus
        for part in gpu.parts
    )


def name_of(part: GpuPartition) -> str:
    """Return the device name, such as ``gpu-1-128``."""
    return f"gpu-{part.card}-{part.render}"


def capacities(compute_units: int, simd_units: int, memory_bytes: int | None) -> dict[str, DeviceCapacity]:
    """Return the capacities of a device. Unknown memory is omitted, because claims would rely on an invented amount."""
    return {
        "computeUnits": DeviceCapacity(value=Quantity.of_int(compute_units)),
        "memory": DeviceCapacity(value=Quantity.binary(memory_bytes or 0)),
        "simdUnits": DeviceCapacity(value=Quantity.of_int(simd_units)),
    }


def version(text: str) -> str:
    """Return the first three numbers of a kernel module's version, 0.0.0 if it has none.

    Released modules have four (``6.19.14.31400000``), those of the kernel none; for either, an API server would reject
    the whole slice. Without the attribute, every selector that reads it would fail.

    >>> version("6.19.14.31400000"), version("6.08"), version("")
    ('6.19.14', '6.8.0', '0.0.0')
    """
    found = _VERSION.match(text)
    numbers = [str(int(number)) for number in found[0].split(".")] if found else []
    return ".".join([*numbers, "0", "0", "0"][:3])


def common(gpu: Gpu) -> dict[str, DeviceAttribute]:
    """Return the attributes that the driver of 2026 publishes on every device of a GPU."""
    values = {
        "deviceID": _string(gpu.device_id),
        "driverVersion": DeviceAttribute(version=version(gpu.driver_version)),
        "driverVersionFull": _string(gpu.driver_version or version("")),
        "productName": _string(gpu.product),
        "resource.kubernetes.io/pciBusID": _string(gpu.pci),
    }
    if gpu.pcie_root is not None:
        values["resource.kubernetes.io/pcieRoot"] = _string(gpu.pcie_root)
    if gpu.numa is not None:
        values["numaNode"] = DeviceAttribute(int_=gpu.numa)
    return values


def _attributes(gpu: Gpu, part: GpuPartition, vocabulary: Vocabulary) -> dict[str, DeviceAttribute]:
    divided = len(gpu.parts) > 1
    own = {"type": _string("amdgpu-partition" if divided else "amdgpu")}
    if gpu.profile:
        own["partitionProfile"] = _string(gpu.profile)
    values = common(gpu)
    if vocabulary == "v1":
        return values | own
    kept = ("driverVersion", "productName", "resource.kubernetes.io/pcieRoot")
    return {name: values[name] for name in kept if name in values} | own | {
        "parentDeviceID" if divided else "deviceID": _string(gpu.unique_id),
        "parentPciAddr" if divided else "pciAddr": _string(gpu.pci),
        "cardIndex": DeviceAttribute(int_=part.card),
        "renderIndex": DeviceAttribute(int_=part.render),
        "driverSrcVersion": _string(gpu.driver_source),
        "family": _string(gpu.family),
    }  # fmt: skip


def _string(text: str) -> DeviceAttribute:
    return DeviceAttribute(string=text.encode()[:_LONGEST].decode(errors="ignore"))
