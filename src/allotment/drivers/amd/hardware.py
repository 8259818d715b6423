"""The one interface to AMD's hardware: sysfs and KFD where a GPU is, a simulation of them elsewhere.

GPUs are named by their PCI address. Facts about one are :class:`allotment.fleet.amd.Gpu`, whoever found them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple, Protocol

from allotment.fleet.amd import Gpu, Part


class HardwareError(Exception):
    """The kernel refused; the text says what was asked of which GPU, and its answer."""


class Character(NamedTuple):
    """A character device. ``group``: the group that may use it, None if unknown."""

    path: str
    major: int
    minor: int
    group: int | None = None


class Hardware(Protocol):
    """The GPUs of a node."""

    async def gpus(self) -> tuple[Gpu, ...]:
        """What there is, by PCI address; nothing without the kernel module."""
        ...

    async def characters(self, part: Part) -> tuple[Character, ...]:
        """The device files through which a program uses a GPU or partition; none as long as they are not all there."""
        ...

    async def set_compute(self, pci: str, mode: str) -> None:
        """Divide a GPU (``cpx``). Its parts have other numbers then. Raises HardwareError: it may be in use."""
        ...

    async def set_memory(self, mode: str) -> None:
        """Change the memory mode of all GPUs (``nps4``): nobody can use any GPU meanwhile. Raises HardwareError."""
        ...

    def changes(self) -> AsyncIterator[None]:
        """GPUs or partitions came or went."""
        ...
