"""The interface to AMD's hardware, implemented by sysfs and KFD on a GPU node and by a simulation elsewhere.

GPUs are identified by their PCI address and described by :class:`allotment.fleet.amd.Gpu`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple, Protocol

from allotment.fleet.amd import Function, Gpu, GpuPartition


class HardwareError(Exception):
    """The kernel refused an operation; the text contains the operation, the GPU and the kernel's error."""


class CharacterDevice(NamedTuple):
    """A character device. ``group``: the id of the group that may use it, None if unknown."""

    path: str
    major: int
    minor: int
    group: int | None = None


class GpuHealth(NamedTuple):
    """The health of a GPU. ``errors``: uncorrectable errors by block, for blocks that had any.

    ``lost``: the GPU no longer answers.
    """

    lost: bool = False
    errors: tuple[tuple[str, int], ...] = ()


class Hardware(Protocol):
    """The GPUs of a node."""

    async def gpus(self) -> tuple[Gpu, ...]:
        """All GPUs by PCI address; none without the kernel module."""
        ...

    async def device_files(self, part: GpuPartition) -> tuple[CharacterDevice, ...]:
        """The device files through which a program uses a GPU or partition; none until all of them exist."""
        ...

    async def set_compute_partition(self, pci: str, mode: str) -> None:
        """Set a GPU's compute partition mode (``cpx``); its partitions get new numbers. Raises HardwareError if it is
        in use.
        """
        ...

    async def set_memory_partition(self, mode: str) -> None:
        """Set the memory partition mode of all GPUs (``nps4``); no GPU can be in use meanwhile. Raises
        HardwareError.
        """
        ...

    async def functions(self) -> tuple[Function, ...]:
        """The PCI functions for virtual machines by PCI address: GPUs or their virtual functions, with any kernel
        driver.
        """
        ...

    async def bind(self, pci: str, driver: str) -> None:
        """Bind a function to a kernel driver (``vfio-pci``; empty: none). Raises HardwareError if it is in use."""
        ...

    async def vfio_device_files(self, pci: str, *, iommu_fd: bool) -> tuple[CharacterDevice, ...]:
        """The device files of a function that is bound to ``vfio-pci``; none until all of them exist.

        ``iommu_fd``: use IOMMUFD where the machine has it.
        """
        ...

    async def iommu_group_peers(self, pci: str) -> tuple[str, ...]:
        """Other devices of the function's IOMMU group that are bound to a kernel driver, without bridges."""
        ...

    async def unhealthy_gpus(self) -> Mapping[str, GpuHealth]:
        """The health of unhealthy GPUs, by PCI address."""
        ...

    def changes(self) -> AsyncIterator[None]:
        """Yields when GPUs, partitions or functions were added or removed, or the health of a GPU changed."""
        ...
