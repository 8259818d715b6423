"""Facts of one AMD GPU, from sysfs and KFD on a real host or from a hardware profile.

A GPU has one or several partitions, each with its own DRM devices; the compute mode determines the number. The first
partition is the PCI device itself. All published devices are built from these facts.
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

#: Partitions per GPU by compute mode; CPX depends on the model: one per die.
_PARTS = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4}


class PartitionMode(NamedTuple):
    """A compute mode with a memory mode, and its number of partitions per GPU."""

    compute: str
    memory: str
    parts: int

    @property
    def profile(self) -> str:
        """``cpx_nps1``."""
        return f"{self.compute}_{self.memory}"


class GpuPartition(NamedTuple):
    """A GPU or a partition of one. ``memory_bytes``: None if the kernel does not report it."""

    card: int
    render: int
    compute_units: int
    simd_units: int
    memory_bytes: int | None


class Gpu(NamedTuple):
    """One GPU. ``pci`` is its stable identity.

    ``compute``, ``memory``: the current partition modes, empty if it has none. ``settings``: the supported ones.
    ``unique_id``: KFD's, in decimal. ``numa``, ``pcie_root``: None if unknown. ``driver_version`` is in the kernel
    module's format, and empty for the module of the kernel itself.
    """

    pci: str
    parts: tuple[GpuPartition, ...]
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
        """The partition modes as published; empty if the GPU has none."""
        return f"{self.compute}_{self.memory}" if self.compute and self.memory else self.compute


def unique_id(node: str, pci: str) -> str:
    """Return a generated KFD unique id: 64 bits in decimal, derived from node and PCI address."""
    return str(name_number(node + pci))


def partition_modes_of(device_id: str, compute: tuple[str, ...], memory: str, dies: int) -> tuple[PartitionMode, ...]:
    """Return the partition modes of a model. The kernel reports compute modes, but not the compatible memory modes.

    ``compute``: the modes that the kernel reports; ``memory``: the current one, assumed for unknown models.
    """
    for model in accelerators().values():
        if model.vendor == "amd" and model.pci_device == device_id and model.partitions:
            return tuple(
                PartitionMode(p.compute, p.memory, p.per_gpu) for p in model.partitions if p.compute in compute
            )
    return tuple(PartitionMode(name, memory, _PARTS.get(name, dies)) for name in compute) if memory else ()


def gpus_of(machine: Hardware, node: str, mode: Mode) -> tuple[Gpu, ...]:
    """Return the GPUs of a machine from its profile. GPUs that are partitioned on demand are whole at first."""
    model = machine.accelerator
    partition = mode.partition if isinstance(mode, Partitioned) else next(iter(model.partitions), None)
    count = partition.per_gpu if partition is not None else 1
    units = (partition.compute_units, partition.simd_units) if partition else (model.compute_units, model.simd_units)
    memory = partition.memory_mib if partition is not None else model.memory_mib
    settings = tuple(PartitionMode(p.compute, p.memory, p.per_gpu) for p in model.partitions)
    return tuple(
        Gpu(
            pci=slot.pci,
            parts=tuple(GpuPartition(slot.card + n, slot.render + n, *units, memory * MIB) for n in range(count)),
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
