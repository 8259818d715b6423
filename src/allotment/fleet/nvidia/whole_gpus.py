"""Whole GPUs, for one claim each."""

from __future__ import annotations

from allotment.fleet.nvidia.attributes import known, model, string
from allotment.fleet.nvidia.gpu import Gpu
from allotment.model.quantity import Quantity
from allotment.model.resource import Device, DeviceAttribute, DeviceCapacity


def name_of(gpu: Gpu) -> str:
    """Return the device name, which contains the minor number of the device file."""
    return f"gpu-{gpu.minor}"


def attributes_of(gpu: Gpu, **more: DeviceAttribute) -> dict[str, DeviceAttribute]:
    """Return the attributes of a whole GPU."""
    return known({**model(gpu), "type": string("gpu"), "uuid": string(gpu.uuid), **more})


def whole_gpu(gpu: Gpu) -> Device:
    """Return a GPU as one device. Its memory is what the driver reports, less than advertised."""
    capacity = {}
    if gpu.memory_bytes is not None:
        capacity["memory"] = DeviceCapacity(value=Quantity.binary(gpu.memory_bytes))
    return Device(name=name_of(gpu), attributes=attributes_of(gpu), capacity=capacity)
