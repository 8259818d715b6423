"""GPUs for virtual machines: whole GPUs, passed through by PCI address (VFIO)."""

from __future__ import annotations

from allotment.fleet.identity import name_uuid
from allotment.fleet.nvidia.attributes import known, place, string
from allotment.fleet.nvidia.gpu import Gpu
from allotment.model.quantity import Quantity
from allotment.model.resource import Device, DeviceAttribute, DeviceCapacity


def vfio_gpu(gpu: Gpu, index: int) -> Device:
    """Return a GPU for pass-through. ``index``: its position among the GPUs by PCI address.

    Once it is bound to ``vfio-pci`` NVML does not report it, so nothing here comes from NVML alone: the UUID is derived
    from the PCI address, the memory is the aperture that a guest maps.
    """
    capacity = {}
    if gpu.bar_bytes is not None:
        capacity["addressableMemory"] = DeviceCapacity(value=Quantity.binary(gpu.bar_bytes))
    attributes = known(
        {
            "deviceID": string(gpu.device_id),
            "iommuFDEnabled": DeviceAttribute(bool_=gpu.iommu_fd),
            "productName": string(gpu.product),
            "type": string("vfio"),
            "uuid": string(name_uuid(gpu.pci)),
            "vendorID": string("0x10de"),
            **place(gpu),
        }
    )
    return Device(name=f"gpu-vfio-{index}", attributes=attributes, capacity=capacity)
