"""``cpu.example.com``: the example driver of processors."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.drivers.driver import AllocatedDevice, DevicePool
from allotment.drivers.example.base_driver import ExampleDriver
from allotment.fleet.example import CPU_DRIVER, cpu_groups
from allotment.fleet.example.cpus import CAPACITY


class ExampleCpus(ExampleDriver):
    def __init__(self, node: str, numa_nodes: int = 8) -> None:
        super().__init__(CPU_DRIVER, "CPU", node, DevicePool(cpu_groups(numa_nodes)))

    def variables(self, device: AllocatedDevice) -> Sequence[str]:
        """Return the NUMA node and the number of processors."""
        name = f"CPU_DEVICE_{device.device.removeprefix('numa-')}"
        consumed = device.consumed_capacity.get(CAPACITY)
        return (f"{name}={device.device}", *((f"{name}_CONSUMED_CPU={consumed}",) if consumed is not None else ()))
