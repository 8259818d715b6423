"""``cpu.example.com``: what containers are told of the processors that they were given."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.drivers.driver import AllocatedDevice, DevicePool
from allotment.drivers.example.base_driver import ExampleDriver
from allotment.fleet.example import CPU_DRIVER, cpu_groups
from allotment.fleet.example.cpus import CAPACITY


class ExampleCpus(ExampleDriver):
    """The driver of a node."""

    def __init__(self, node: str, numa_nodes: int = 8) -> None:
        super().__init__(CPU_DRIVER, "CPU", node, DevicePool(cpu_groups(numa_nodes)))

    def variables(self, granted: AllocatedDevice) -> Sequence[str]:
        """Which NUMA node, and how many processors of it."""
        name = f"CPU_DEVICE_{granted.device.removeprefix('numa-')}"
        consumed = granted.consumed_capacity.get(CAPACITY)
        return (f"{name}={granted.device}", *((f"{name}_CONSUMED_CPU={consumed}",) if consumed is not None else ()))
