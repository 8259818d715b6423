"""``cpu.example.com``: the processors of NUMA nodes as devices, mapped to the node's cpu resource (alpha in 1.36)."""

from __future__ import annotations

from typing import Final

from allotment.model.quantity import Quantity
from allotment.model.resource import Device, DeviceAttribute, DeviceCapacity, NodeAllocatableResourceMapping

CPU_DRIVER: Final = "cpu.example.com"
#: Contains the driver's name, so that two cpu drivers on a node do not conflict.
CAPACITY: Final = f"{CPU_DRIVER}/cpu"
#: Number of processors of a NUMA node.
CPUS: Final = 4


def cpu_groups(numa_nodes: int) -> tuple[tuple[Device, ...], ...]:
    """Return one group with a device for each NUMA node."""
    return (tuple(_numa(index) for index in range(numa_nodes)),)


def _numa(index: int) -> Device:
    return Device(
        name=f"numa-{index}",
        attributes={"numaNodeID": DeviceAttribute(int_=index)},
        capacity={CAPACITY: DeviceCapacity(value=Quantity.of_int(CPUS))},
        allow_multiple_allocations=True,
        node_allocatable_resource_mappings={"cpu": NodeAllocatableResourceMapping(capacity_key=CAPACITY)},
    )
