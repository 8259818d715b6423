"""Whole GPUs, for one claim each."""

from __future__ import annotations

from allotment.fleet.nvidia.attributes import known, model, string
from allotment.fleet.nvidia.gpu import Gpu
from allotment.model.quantity import Quantity
from allotment.model.resource import Device, DeviceAttribute, DeviceCapacity


def name_of(gpu: Gpu) -> str:
    """The device's name: the minor number, which the node of its device file has too."""
    return f"gpu-{gpu.minor}"


def attributes_of(gpu: Gpu, **more: DeviceAttribute) -> dict[str, DeviceAttribute]:
    """What a whole GPU says of itself."""
    return known({**model(gpu), "type": string("gpu"), "uuid": string(gpu.uuid), **more})


def whole_gpu(gpu: Gpu) -> Device:
    """A GPU as one device. Its memory is what the driver counts, less than the label says."""
    capacity = {}
    if gpu.memory_bytes is not None:
        capacity["memory"] = DeviceCapacity(value=Quantity.binary(gpu.memory_bytes))
    return Device(name=name_of(gpu), attributes=attributes_of(gpu), capacity=capacity)
