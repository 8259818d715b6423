"""``cpu.example.com``: what containers are told of the processors that they were given."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.drivers.driver import Granted, Offer
from allotment.drivers.example.base_driver import Imaginary
from allotment.fleet.example import CPU_DRIVER, cpu_groups
from allotment.fleet.example.cpus import CAPACITY


class ExampleCpus(Imaginary):
    """The driver of a node."""

    def __init__(self, node: str, numa_nodes: int = 8) -> None:
        super().__init__(CPU_DRIVER, "CPU", node, Offer(cpu_groups(numa_nodes)))

    def variables(self, granted: Granted) -> Sequence[str]:
        """Which NUMA node, and how many processors of it."""
        name = f"CPU_DEVICE_{granted.device.removeprefix('numa-')}"
        consumed = granted.consumed.get(CAPACITY)
        return (f"{name}={granted.device}", *((f"{name}_CONSUMED_CPU={consumed}",) if consumed is not None else ()))
