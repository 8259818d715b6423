"""A PCI function handed from its kernel driver to ``vfio-pci`` for a virtual machine, and given back.

The kernel waits in the middle of taking a device from a driver while somebody has it open, and virtual machines get an
IOMMU group as a whole or not at all; so both are looked for first.
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

#: Seconds that programs which have a GPU open may take to go, and the kernel to bind a driver.
RELEASE_SECONDS: Final = 30.0
BIND_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.05


class Caller(Protocol):
    """Does something with the kernel's files that may take a while."""

    async def __call__(self, function: Callable[[], T]) -> T:
        """Its answer."""
        ...


async def bind(files: KernelFiles, pci: str, driver: str, call: Caller, *, release_seconds: float = RELEASE_SECONDS) -> None:
    """Have a kernel driver drive a function, and no other; empty for none. Raises HardwareError."""
    action = f"GPU {pci}: binding it to {driver or 'no driver'}"
    if await call(lambda: iommu_group_of(files, pci)) is None:
        raise HardwareError(f"{action}: it is not there, or in no IOMMU group; is the IOMMU switched on?")
    if driver == VFIO and await call(lambda: driver_of(files, pci)) != VFIO:
        if (await call(lambda: files.read(f"{PCI}/{pci}/sriov_numvfs")) or "0") != "0":
            raise HardwareError(f"{action}: it has virtual functions; remove them first")
        if not await _wait_until(call, lambda: not processes_using(files, pci), release_seconds):
            raise HardwareError(f"{action}: process {', '.join(await call(lambda: processes_using(files, pci)))} has it open")
    try:
        before = await call(lambda: _rebind(files, pci, driver))
    except OSError as error:
        raise HardwareError(f"{action}: {error.filename or 'the kernel'}: {error.strerror}") from None
    if not await _wait_until(call, lambda: driver_of(files, pci) == driver, BIND_SECONDS):
        actual = await call(lambda: driver_of(files, pci)) or "no driver"
        raise HardwareError(f"{action}: the kernel did not, {actual} has it; is the module {driver or before} loaded?")


def _rebind(files: KernelFiles, pci: str, driver: str) -> str:
    """Returns the driver before. Raises OSError."""
    before, override = driver_of(files, pci), f"{PCI}/{pci}/driver_override"
    # The override is for vfio-pci only: what a function is meant for finds it by itself. It stays where a crash left
    # it, so it is looked at even where the driver is the right one.
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
    """Whether it came true in time."""
    try:
        async with asyncio.timeout(seconds):
            while not await call(condition):
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        return False
    return True


def vfio_device_files(files: KernelFiles, pci: str, *, iommu_fd: bool) -> tuple[CharacterDevice, ...]:
    """The device files through which a virtual machine's monitor gets a function; none as long as they are not there.

    Those of the group and of VFIO itself, or where ``iommu_fd`` is wanted and there, the function's own and IOMMUFD's.
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
