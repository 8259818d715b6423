"""Partitioning on demand: chooses the partitions of a claim, and sets and restores the modes of GPUs.

Partitions have no names before they exist, so a plan identifies them by index: the third partition of a GPU in CPX. The
memory mode applies to the whole node and is changed only while no claim uses any GPU; the compute mode applies to one
GPU and is changed only while no claim uses that GPU. The memory mode is set first in both directions, because a compute
mode may not exist in the other memory mode.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from allotment.drivers.amd.hardware import Hardware, HardwareError
from allotment.drivers.amd.plan import Plan, PlannedDevice
from allotment.drivers.driver import AllocatedDevice, ClaimError
from allotment.fleet.amd import Gpu, GpuPartition, PartitionMode
from allotment.fleet.amd.auto_partition import PARTITIONS

#: udev creates device files a moment after the mode is set.
_TIMEOUT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05


def memory_mode_of(plans: Sequence[Plan]) -> str:
    """The memory mode that these plans use; empty if they have no partitions."""
    return next((device.memory for plan in plans for device in plan.partitioned_devices), "")


def initial_modes(gpus: Collection[Gpu], others: Sequence[Plan]) -> dict[str, tuple[str, str]]:
    """The modes to restore: those before the first of the currently prepared claims."""
    known = next((plan.initial_modes for plan in others), {})
    return {gpu.pci: (gpu.compute, gpu.memory) for gpu in gpus if gpu.settings} | known


def plan_partitions(
    allocated: AllocatedDevice,
    number: int,
    gpu: Gpu,
    setting: PartitionMode,
    same_claim: Sequence[PlannedDevice],
    others: Sequence[Plan],
) -> PlannedDevice:
    """Choose the partitions that a claim gets of a GPU in a setting. ``same_claim``: devices that the claim already
    has.

    Raises ClaimError.
    """
    device = f"device {allocated.pool}/{allocated.device}"
    planned = [*same_claim, *(other for plan in others for other in plan.partitioned_devices)]
    memory = next((other.memory for other in planned if other.slots and other.memory != setting.memory), "")
    if memory:
        raise ClaimError(
            f"{device} requires memory mode {setting.memory.upper()}, but other claims use the "
            f"node's GPUs in mode {memory.upper()}; the device becomes available when these claims are released"
        )
    on_gpu = [other for other in planned if other.pci == gpu.pci and other.slots]
    conflict = next((other for other in on_gpu if other.compute != setting.compute), None)
    if conflict is not None:
        raise ClaimError(
            f"{device} requires compute mode {setting.compute.upper()} on GPU {gpu.pci}, but {conflict.device} on that "
            "GPU is in use"
        )
    amount = allocated.consumed_capacity.get(PARTITIONS)
    requested = amount.value() if amount is not None else setting.parts
    used_slots = {slot for other in on_gpu for slot in other.slots}
    free_slots = [slot for slot in range(setting.parts) if slot not in used_slots]
    if len(free_slots) < requested:
        raise ClaimError(f"{device}: {requested} partitions requested, {len(free_slots)} of {setting.parts} available")
    return PlannedDevice(
        allocated.pool, allocated.device, gpu.pci, allocated.share_id, setting.compute, setting.memory, number,
        tuple(free_slots[:requested]),
    )  # fmt: skip


async def apply_modes(
    hardware: Hardware, plan: Plan, others: Sequence[Plan]
) -> Mapping[PlannedDevice, tuple[GpuPartition, ...]]:
    """Set the modes of the plan's GPUs and return the partitions of each device. Raises HardwareError, ClaimError."""
    gpus = {gpu.pci: gpu for gpu in await hardware.gpus()}
    memory = memory_mode_of([plan])
    if any(gpus[device.pci].memory != memory for device in plan.partitioned_devices if device.pci in gpus):
        if others:
            raise ClaimError(
                f"changing the memory mode to {memory.upper()} would stop the programs on the node's other GPUs"
            )
        await hardware.set_memory_partition(memory)
        gpus = {gpu.pci: gpu for gpu in await hardware.gpus()}
    for device in plan.partitioned_devices:
        gpu = gpus.get(device.pci)
        if gpu is None:
            raise ClaimError(f"device {device.pool}/{device.device}: GPU {device.pci} not found")
        if gpu.compute != device.compute:
            await hardware.set_compute_partition(device.pci, device.compute)
            gpus = {gpu.pci: gpu for gpu in await hardware.gpus()}
    return {device: await _wait_for_parts(hardware, device) for device in plan.partitioned_devices}


async def _wait_for_parts(hardware: Hardware, device: PlannedDevice) -> tuple[GpuPartition, ...]:
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            while True:
                gpu = next((gpu for gpu in await hardware.gpus() if gpu.pci == device.pci), None)
                if gpu is not None and gpu.compute == device.compute and len(gpu.parts) > max(device.slots):
                    parts = tuple(gpu.parts[slot] for slot in device.slots)
                    if all([await hardware.device_files(part) for part in parts]):
                        return parts
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise HardwareError(
            f"GPU {device.pci} is in compute mode {device.compute.upper()}, but the device files of its partitions are "
            "missing"
        ) from None


async def restore(hardware: Hardware, plan: Plan, others: Sequence[Plan]) -> None:
    """Restore the initial modes of the GPUs that no other plan uses. Raises HardwareError."""
    gpus = {gpu.pci: gpu for gpu in await hardware.gpus()}
    busy = {device.pci for other in others for device in other.partitioned_devices}
    if not busy:
        memory = next((memory for pci, (_, memory) in plan.initial_modes.items() if pci in gpus), "")
        if memory and any(gpu.memory != memory for gpu in gpus.values() if gpu.memory):
            await hardware.set_memory_partition(memory)
            gpus = {gpu.pci: gpu for gpu in await hardware.gpus()}
    freed = {device.pci for device in plan.partitioned_devices}
    for pci, (compute, _) in plan.initial_modes.items():
        gpu = gpus.get(pci)
        if gpu is None or gpu.compute == compute or pci in busy or (busy and pci not in freed):
            continue
        # With another memory mode in use, the mode is restored after the last claim.
        if any((setting.compute, setting.memory) == (compute, gpu.memory) for setting in gpu.settings):
            await hardware.set_compute_partition(pci, compute)
