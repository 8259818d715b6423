"""The one interface to AMD's hardware: sysfs and KFD where a GPU is, a simulation of them elsewhere.

GPUs are named by their PCI address. Facts about one are :class:`allotment.fleet.amd.Gpu`, whoever found them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple, Protocol

from allotment.fleet.amd import Function, Gpu, Part


class HardwareError(Exception):
    """The kernel refused; the text says what was asked of which GPU, and its answer."""


class CharacterDevice(NamedTuple):
    """A character device. ``group``: the group that may use it, None if unknown."""

    path: str
    major: int
    minor: int
    group: int | None = None


class GpuHealth(NamedTuple):
    """What is wrong with a GPU. ``errors``: of each block that had any, how many could not be corrected.

    ``lost``: it no longer answers.
    """

    lost: bool = False
    errors: tuple[tuple[str, int], ...] = ()


class Hardware(Protocol):
    """The GPUs of a node."""

    async def gpus(self) -> tuple[Gpu, ...]:
        """What there is, by PCI address; nothing without the kernel module."""
        ...

    async def device_files(self, part: Part) -> tuple[CharacterDevice, ...]:
        """The device files through which a program uses a GPU or partition; none as long as they are not all there."""
        ...

    async def set_compute_partition(self, pci: str, mode: str) -> None:
        """Divide a GPU (``cpx``). Its parts have other numbers then. Raises HardwareError: it may be in use."""
        ...

    async def set_memory_partition(self, mode: str) -> None:
        """Change the memory mode of all GPUs (``nps4``): nobody can use any GPU meanwhile. Raises HardwareError."""
        ...

    async def functions(self) -> tuple[Function, ...]:
        """What virtual machines can have, by PCI address: GPUs or their virtual functions, whatever driver has them."""
        ...

    async def bind(self, pci: str, driver: str) -> None:
        """Have a kernel driver drive a function (``vfio-pci``; empty: none). Raises HardwareError: it may be in use."""
        ...

    async def vfio_device_files(self, pci: str, *, iommu_fd: bool) -> tuple[CharacterDevice, ...]:
        """The device files of a function that ``vfio-pci`` has; none as long as they are not all there.

        ``iommu_fd``: through the newer interface where the machine has it.
        """
        ...

    async def iommu_group_peers(self, pci: str) -> tuple[str, ...]:
        """Other devices of a function's IOMMU group that some kernel driver has; bridges do not count."""
        ...

    async def unhealthy_gpus(self) -> Mapping[str, GpuHealth]:
        """What is wrong with GPUs, by PCI address; nothing of those that are well."""
        ...

    def changes(self) -> AsyncIterator[None]:
        """GPUs, partitions or functions came or went, got ill or well."""
        ...
