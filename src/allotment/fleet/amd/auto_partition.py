"""AutoPartition: one device per partition mode of a GPU, from which claims allocate partitions.

The modes of a GPU exclude each other by a counter with value one that each of them consumes. Memory modes exclude each
other on the whole node, because changing them reloads the driver: devices of the modes not in use are tainted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from allotment.fleet.amd.devices import capacities, common, devices_of_gpus
from allotment.fleet.amd.gpu import Gpu, PartitionMode, gpus_of
from allotment.fleet.amd.vfio import functions_of, passed_through
from allotment.fleet.hardware import Hardware
from allotment.fleet.modes import AmdMode, Partitioned, VirtualMachines
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    CapacityRequestPolicy,
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceCounterConsumption,
    DeviceTaint,
)

#: The capacity from which claims allocate partitions.
PARTITIONS = "partitions"
CONFLICT = "gpu.amd.com/memory-partition-conflict"

_ONE = Quantity.of_int(1)
_MODE = {"partition-mode": Counter(value=_ONE)}


class Offering(NamedTuple):
    """Devices in groups that share a slice, and the counter sets that they consume."""

    groups: tuple[tuple[Device, ...], ...]
    counters: tuple[CounterSet, ...]


def offering(gpus: Mapping[int, Gpu], memory: str = "") -> Offering:
    """Return the devices of a node. ``gpus``: by the number in their devices' names, which must be stable.

    ``memory``: the memory mode that claims use now; empty if none does. A GPU that cannot be partitioned is published
    whole.
    """
    groups = []
    for index, gpu in gpus.items():
        ways = tuple(_device(gpu, index, setting, memory) for setting in gpu.settings)
        groups.append(ways or devices_of_gpus([gpu], "v1"))
    counters = tuple(CounterSet(_mutex(index), _MODE) for index, gpu in gpus.items() if gpu.settings)
    return Offering(tuple(groups), counters)


def offering_of(machine: Hardware, node: str, mode: AmdMode) -> Offering:
    """Return what a machine publishes in a mode, according to its profile."""
    if isinstance(mode, VirtualMachines):
        return Offering(*passed_through(dict(enumerate(functions_of(machine, mode)))))
    gpus = gpus_of(machine, node, mode)
    if isinstance(mode, Partitioned):
        return Offering((devices_of_gpus(gpus, mode.vocabulary),), ())
    return offering(dict(enumerate(gpus)))


def name_of(index: int, setting: PartitionMode) -> str:
    """Return the device name, such as ``gpu-0-cpx-nps1``."""
    return f"gpu-{index}-{setting.compute}-{setting.memory}"


def _mutex(index: int) -> str:
    return f"gpu-{index}-mutex"


def _device(gpu: Gpu, index: int, setting: PartitionMode, memory: str) -> Device:
    attributes = common(gpu) | {
        "type": DeviceAttribute(string="amdgpu-partition" if setting.parts > 1 else "amdgpu"),
        "computePartition": DeviceAttribute(string=setting.compute),
        "memoryPartition": DeviceAttribute(string=setting.memory),
        "gpuIndex": DeviceAttribute(int_=index),
        "pciAddr": DeviceAttribute(string=gpu.pci),
    }
    whole = capacities(
        sum(part.compute_units for part in gpu.parts),
        sum(part.simd_units for part in gpu.parts),
        sum(part.memory_bytes or 0 for part in gpu.parts),
    ) | {PARTITIONS: DeviceCapacity(value=Quantity.of_int(setting.parts))}
    shared = setting.parts > 1
    capacity = (
        {name: _one_partition_per_request(name, capacity.value, setting.parts) for name, capacity in whole.items()}
        if shared
        else whole
    )
    conflict = memory not in ("", setting.memory)
    return Device(
        name=name_of(index, setting),
        attributes=dict(sorted(attributes.items())),
        capacity=dict(sorted(capacity.items())),
        consumes_counters=(DeviceCounterConsumption(counter_set=_mutex(index), counters=_MODE),),
        taints=(DeviceTaint(key=CONFLICT, value=memory, effect="NoExecute"),) if conflict else (),
        allow_multiple_allocations=True if shared else None,
    )


def _one_partition_per_request(name: str, whole: Quantity, parts: int) -> DeviceCapacity:
    """Return a capacity of which every allocation consumes one partition by default.

    Without the policy the first allocation would consume all of it, and the other partitions would be unusable.
    """
    made = Quantity.binary if name == "memory" else Quantity.of_int
    amount = whole.value() // parts
    policy = CapacityRequestPolicy(default=made(amount), valid_values=(made(amount),))
    return DeviceCapacity(value=made(amount * parts), request_policy=policy)
