"""``cpu.example.com``: the processors of NUMA nodes as devices, counted among what the node has (alpha in 1.36)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from allotment.drivers.driver import Granted, Offer
from allotment.drivers.example.imaginary import Imaginary
from allotment.model.quantity import Quantity
from allotment.model.resource import Device, DeviceAttribute, DeviceCapacity, NodeAllocatableResourceMapping

NAME: Final = "cpu.example.com"
#: With the driver's name, so that two drivers of processors on a node do not meet.
CAPACITY: Final = f"{NAME}/cpu"


class ExampleCpus(Imaginary):
    """The driver of a node. ``cpus``: of each NUMA node."""

    def __init__(self, node: str, numa_nodes: int = 8, cpus: int = 4) -> None:
        super().__init__(NAME, "CPU", node, Offer([[_numa(index, cpus)] for index in range(numa_nodes)]))

    def variables(self, granted: Granted) -> Sequence[str]:
        """Which NUMA node, and how many processors of it."""
        name = f"CPU_DEVICE_{granted.device.removeprefix('numa-')}"
        consumed = granted.consumed.get(CAPACITY)
        return (f"{name}={granted.device}", *((f"{name}_CONSUMED_CPU={consumed}",) if consumed is not None else ()))


def _numa(index: int, cpus: int) -> Device:
    return Device(
        name=f"numa-{index}",
        attributes={"numaNodeID": DeviceAttribute(int_=index)},
        capacity={CAPACITY: DeviceCapacity(value=Quantity.of_int(cpus))},
        allow_multiple_allocations=True,
        node_allocatable_resource_mappings={"cpu": NodeAllocatableResourceMapping(capacity_key=CAPACITY)},
    )
