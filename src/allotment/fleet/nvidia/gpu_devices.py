"""GPUs as devices: whole for one claim, whole for a virtual machine (VFIO), or shared by several claims.

Shared GPUs are allocated by an amount of memory (KEP-5075, consumable capacity). ``consumable-shares`` is the vendor's
mode: amounts are counted but not enforced. ``shared`` is Allotment's: when a claim is prepared, MPS limits its programs
to the consumed memory, so "10 GB of a GPU" needs no MIG. Both keep type ``gpu``: the usual DeviceClass selects them,
and a claim without a requested amount gets the whole GPU (except ``unlimited`` and counted shares, where it gets one
share). Enforced GPUs have the attribute ``sharing: MPS``.
"""

from __future__ import annotations

from allotment.fleet.identity import name_uuid
from allotment.fleet.modes import ConsumableShares
from allotment.fleet.nvidia.attributes import known, model, place, string
from allotment.fleet.nvidia.gpu import Gpu
from allotment.fleet.profiles import MIB
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    Device,
    DeviceAttribute,
    DeviceCapacity,
)

_MIB = Quantity.binary(MIB)
_ONE = Quantity.of_int(1)


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


def mps_limited_gpu(gpu: Gpu) -> Device:
    """Return a GPU whose memory is allocated in MiB and limited by MPS; the whole GPU if its memory is unknown."""
    if gpu.memory_bytes is None:
        return whole_gpu(gpu)
    sharing = string("MPS")
    assert sharing is not None
    return Device(
        name=name_of(gpu),
        attributes=attributes_of(gpu, sharing=sharing),
        capacity={"memory": _default_all(gpu.memory_bytes)},
        allow_multiple_allocations=True,
    )


def counted_gpu(gpu: Gpu, mode: ConsumableShares) -> Device:
    """Return a GPU whose amounts are counted but not enforced."""
    capacity: dict[str, DeviceCapacity] = {}
    if gpu.memory_bytes is not None:
        capacity["memory"] = (
            _default_all(gpu.memory_bytes) if mode.shares == "memory" else _default_none(gpu.memory_bytes)
        )
    if isinstance(mode.shares, int):
        least = CapacityRequestPolicyRange(min=_ONE, step=_ONE)
        policy = CapacityRequestPolicy(default=_ONE, valid_range=least)
        capacity["shares"] = DeviceCapacity(value=Quantity.of_int(mode.shares), request_policy=policy)
    return Device(name=name_of(gpu), attributes=attributes_of(gpu), capacity=capacity, allow_multiple_allocations=True)


def _default_all(memory: int) -> DeviceCapacity:
    # Rounded down to MiB: the default must be a multiple of the step.
    most = Quantity.binary(memory // MIB * MIB)
    valid = CapacityRequestPolicyRange(min=_MIB, max=most, step=_MIB)
    return DeviceCapacity(value=most, request_policy=CapacityRequestPolicy(default=most, valid_range=valid))


def _default_none(memory: int) -> DeviceCapacity:
    return DeviceCapacity(
        value=Quantity.binary(memory // MIB * MIB), request_policy=CapacityRequestPolicy(default=Quantity.ZERO)
    )
