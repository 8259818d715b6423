"""Facts of one AMD GPU, whoever found them: sysfs and KFD on a real host, a profile elsewhere.

A GPU shows itself as one or several parts, each with DRM devices of its own: as many as its compute mode says. The
first part is the PCI device itself. Everything that is published is made of these facts.
"""

from __future__ import annotations

from typing import NamedTuple

from allotment.fleet.hardware import Hardware
from allotment.fleet.identity import name_number
from allotment.fleet.modes import Mode, Partitioned
from allotment.fleet.profiles import MIB, accelerators

DRIVER = "gpu.amd.com"

#: Source checksum of a released amdgpu module; any text would do.
DRIVER_SOURCE = "A27BF33B4586326D747C9FB"

#: Into how many parts a compute mode divides a GPU; CPX depends on the model: one per die.
_PARTS = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4}


class PartitionMode(NamedTuple):
    """A compute mode with a memory mode, and into how many parts it divides a GPU."""

    compute: str
    memory: str
    parts: int

    @property
    def profile(self) -> str:
        """``cpx_nps1``."""
        return f"{self.compute}_{self.memory}"


class GpuPart(NamedTuple):
    """A GPU or a partition of one. ``memory_bytes``: None where the kernel does not say."""

    card: int
    render: int
    compute_units: int
    simd_units: int
    memory_bytes: int | None


class Gpu(NamedTuple):
    """One GPU. ``pci`` is its name for good.

    ``compute``, ``memory``: the partition modes that it is in, empty where it has none. ``settings``: those that it
    could be in. ``unique_id``: KFD's, in decimal. ``numa``, ``pcie_root``: None where the machine does not say.
    ``driver_version`` is in the kernel module's own words, and empty for the one that comes with the kernel.
    """

    pci: str
    parts: tuple[GpuPart, ...]
    product: str
    device_id: str
    unique_id: str
    driver_version: str = ""
    driver_source: str = ""
    family: str = ""
    compute: str = ""
    memory: str = ""
    settings: tuple[PartitionMode, ...] = ()
    numa: int | None = None
    pcie_root: str | None = None

    @property
    def profile(self) -> str:
        """The partition modes as published; empty where the GPU has none."""
        return f"{self.compute}_{self.memory}" if self.compute and self.memory else self.compute


def unique_id(node: str, pci: str) -> str:
    """A made-up KFD unique id: 64 bits in decimal, derived from node and PCI address."""
    return str(name_number(node + pci))


def partition_modes_of(device_id: str, compute: tuple[str, ...], memory: str, dies: int) -> tuple[PartitionMode, ...]:
    """The settings of a model. The kernel tells compute modes, but not which memory modes go with them.

    ``compute``: the modes that the kernel has; ``memory``: the one that is on, taken for a model that nobody knows.
    """
    for model in accelerators().values():
        if model.vendor == "amd" and model.pci_device == device_id and model.partitions:
            return tuple(PartitionMode(p.compute, p.memory, p.per_gpu) for p in model.partitions if p.compute in compute)
    return tuple(PartitionMode(name, memory, _PARTS.get(name, dies)) for name in compute) if memory else ()


def gpus_of(machine: Hardware, node: str, mode: Mode) -> tuple[Gpu, ...]:
    """The GPUs of a machine from its profile. GPUs that are partitioned on demand begin whole."""
    model = machine.accelerator
    partition = mode.partition if isinstance(mode, Partitioned) else next(iter(model.partitions), None)
    count = partition.per_gpu if partition is not None else 1
    units = (partition.compute_units, partition.simd_units) if partition else (model.compute_units, model.simd_units)
    memory = partition.memory_mib if partition is not None else model.memory_mib
    settings = tuple(PartitionMode(p.compute, p.memory, p.per_gpu) for p in model.partitions)
    return tuple(
        Gpu(
            pci=slot.pci,
            parts=tuple(GpuPart(slot.card + n, slot.render + n, *units, memory * MIB) for n in range(count)),
            product=model.product,
            device_id=model.pci_device,
            unique_id=unique_id(node, slot.pci),
            driver_version=model.driver_version,
            driver_source=DRIVER_SOURCE,
            family=model.family,
            compute=partition.compute if partition is not None else "",
            memory=partition.memory if partition is not None else "",
            settings=settings,
            numa=slot.numa,
            pcie_root=slot.pcie_root,
        )
        for slot in (machine.slots[number] for number in machine.order)
    )
