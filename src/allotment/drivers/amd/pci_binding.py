"""Binds a PCI function to ``vfio-pci`` for a virtual machine, and back to its kernel driver.

The kernel blocks while it unbinds a device that a process has open, and an IOMMU group can only be given to a virtual
machine as a whole, so both are checked first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from allotment.drivers.amd.hardware import CharacterDevice, HardwareError
from allotment.drivers.amd.kernel_files import KernelFiles
from allotment.drivers.amd.pci_functions import driver_of, iommu_group_of, processes_using
from allotment.drivers.amd.sysfs import PCI

T = TypeVar("T")

VFIO: Final = "vfio-pci"
_DRIVERS: Final = "sys/bus/pci/drivers"

#: Time limits for programs to close a GPU, and for the kernel to bind a driver.
RELEASE_SECONDS: Final = 30.0
BIND_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.05


class Caller(Protocol):
    """Calls a blocking function that uses the kernel's files."""

    async def __call__(self, function: Callable[[], T]) -> T:
        """The function's result."""
        ...


async def bind(
    files: KernelFiles, pci: str, driver: str, call: Caller, *, release_seconds: float = RELEASE_SECONDS
) -> None:
    """Bind a function to a kernel driver; empty for none. Raises HardwareError."""
    action = f"GPU {pci}: cannot {f'bind it to {driver}' if driver else 'unbind it'}"
    if await call(lambda: iommu_group_of(files, pci)) is None:
        raise HardwareError(f"{action}: not found, or not in an IOMMU group; check that the IOMMU is enabled")
    if driver == VFIO and await call(lambda: driver_of(files, pci)) != VFIO:
        if (await call(lambda: files.read(f"{PCI}/{pci}/sriov_numvfs")) or "0") != "0":
            raise HardwareError(f"{action}: it has virtual functions; remove them first")
        if not await _wait_until(call, lambda: not processes_using(files, pci), release_seconds):
            users = await call(lambda: processes_using(files, pci))
            noun = "process" if len(users) == 1 else "processes"
            raise HardwareError(f"{action}: it is in use by {noun} {', '.join(users)}")
    try:
        before = await call(lambda: _rebind(files, pci, driver))
    except OSError as error:
        raise HardwareError(f"{action}: {error.filename or 'the kernel'}: {error.strerror}") from None
    if not await _wait_until(call, lambda: driver_of(files, pci) == driver, BIND_SECONDS):
        actual = await call(lambda: driver_of(files, pci))
        state = f"it is still bound to {actual}" if actual else "it is not bound to any driver"
        raise HardwareError(f"{action}: {state}; check that the kernel module {driver or before} is loaded")


def _rebind(files: KernelFiles, pci: str, driver: str) -> str:
    """Change the driver of a function and return the previous one. Raises OSError."""
    before, override = driver_of(files, pci), f"{PCI}/{pci}/driver_override"
    # The override is for vfio-pci only: the default driver matches without one. A crash can leave the override set, so
    # it is checked even if the driver is already the right one.
    target = VFIO if driver == VFIO else ""
    if (files.read(override) == VFIO) != bool(target):
        files.write(override, f"{target}\n")
    if before != driver:
        if before:
            files.write(f"{_DRIVERS}/{before}/unbind", pci)
        if driver:
            files.write("sys/bus/pci/drivers_probe", pci)
    return before


async def _wait_until(call: Caller, condition: Callable[[], bool], seconds: float) -> bool:
    """Whether the condition became true in time."""
    try:
        async with asyncio.timeout(seconds):
            while not await call(condition):
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        return False
    return True


def vfio_device_files(files: KernelFiles, pci: str, *, iommu_fd: bool) -> tuple[CharacterDevice, ...]:
    """The device files through which a virtual machine uses a function; none until all of them exist.

    These are the files of the group and of VFIO, or with ``iommu_fd``, where the host supports it, those of the
    function and of IOMMUFD.
    """
    own = next((name for name in files.listdir(f"{PCI}/{pci}/vfio-dev") if name.startswith("vfio")), None)
    api = _character_device(files, "dev/iommu", "sys/class/misc/iommu/dev")
    if iommu_fd and own is not None and api is not None:
        device = _character_device(files, f"dev/vfio/devices/{own}", f"{PCI}/{pci}/vfio-dev/{own}/dev")
    else:
        group = iommu_group_of(files, pci)
        device = _character_device(files, f"dev/vfio/{group}", f"sys/class/vfio/{group}/dev")
        api = _character_device(files, "dev/vfio/vfio", "sys/class/misc/vfio/dev")
    return (device, api) if device is not None and api is not None else ()


def _character_device(files: KernelFiles, path: str, number_file: str) -> CharacterDevice | None:
    major, colon, minor = (files.read(number_file) or "").partition(":")
    group = files.group_id(path)
    return CharacterDevice(f"/{path}", int(major), int(minor), group) if colon and group is not None else None
