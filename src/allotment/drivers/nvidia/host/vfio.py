"""Binds a GPU to ``vfio-pci`` for virtual machines, and back to NVIDIA's driver.

The kernel blocks forever while it unbinds a device that a process has open, so that is checked first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from allotment.drivers.nvidia.hardware import GpuLost, HardwareError
from allotment.drivers.nvidia.host.roots import Roots
from allotment.drivers.nvidia.host.sysfs import device_folder, driver_of, iommu_group, iommu_group_peers, read

VFIO = "vfio-pci"

#: Time limits for programs to close the GPU, and for the kernel to bind a driver.
RELEASE_SECONDS = 60.0
BIND_SECONDS = 10.0


def bind_to_vfio(
    roots: Roots, pci: str, minor: int, together_with: Collection[str] = (), *,
    release_seconds: float = RELEASE_SECONDS, bind_seconds: float = BIND_SECONDS,
) -> int:  # fmt: skip
    """Bind a GPU to vfio-pci if it is not bound already; returns its IOMMU group. Blocks. Raises HardwareError.

    No process may have the GPU open, this one included, and no driver may use other devices of its group, except for
    those in ``together_with``.
    """
    action = f"GPU {pci}: cannot bind it to {VFIO}"
    group = _group(roots, pci, action)
    if driver_of(roots, pci) == VFIO:
        return group
    if read(device_folder(roots, pci) / "sriov_numvfs") not in ("", "0"):
        raise HardwareError(f"{action}: it has virtual functions; remove them first")
    peers = set(iommu_group_peers(roots, pci)).difference(together_with)
    others = [peer for peer in sorted(peers) if driver_of(roots, peer) not in ("", VFIO)]
    if others:
        raise HardwareError(f"{action}: other devices in IOMMU group {group} are in use: {', '.join(others)}")
    users: list[str] = []
    if not _wait_until(lambda: not processes_using(roots, minor, users), release_seconds):
        noun = "process" if len(users) == 1 else "processes"
        raise HardwareError(f"{action}: it is in use by {noun} {', '.join(users)}")
    if not _rebind(roots, pci, VFIO, bind_seconds):
        _rebind(roots, pci, "", bind_seconds)
        raise HardwareError(f"{action}: the kernel did not bind it; check that the kernel module {VFIO} is loaded")
    return group


def unbind_from_vfio(roots: Roots, pci: str, bind_seconds: float = BIND_SECONDS) -> int:
    """Bind a GPU to its own driver if it is not bound already; returns its IOMMU group. Blocks. Raises
    HardwareError.
    """
    action = f"GPU {pci}: cannot unbind it from {VFIO}"
    if driver_of(roots, pci) == VFIO and not _rebind(roots, pci, "", bind_seconds):
        raise HardwareError(f"{action}: no other driver was bound; check that the kernel module nvidia is loaded")
    return _group(roots, pci, action)


def processes_using(roots: Roots, minor: int, users: list[str] | None = None) -> list[str]:
    """Ids of the processes that have a GPU's device file open; stored in ``users`` if given."""
    processes = [] if users is None else users
    processes.clear()
    file = str(roots.dev / f"nvidia{minor}")
    for process in sorted(roots.proc.glob("[0-9]*")):
        with suppress(OSError):  # it may have ended, or belong to another user
            if any(_target(entry) == file for entry in (process / "fd").iterdir()):
                processes.append(process.name)
    return processes


def _target(entry: Path) -> str:
    try:
        return str(entry.readlink())
    except OSError:
        return ""


def _group(roots: Roots, pci: str, action: str) -> int:
    if not device_folder(roots, pci).exists():
        raise GpuLost(f"{action}: not found by the kernel")
    group = iommu_group(roots, pci)
    if group is None:
        raise HardwareError(f"{action}: it is not in an IOMMU group; check that the IOMMU is enabled")
    return group


def _rebind(roots: Roots, pci: str, driver: str, timeout: float) -> bool:
    """Bind a device to ``driver`` only (empty: its default driver); returns whether it is bound."""
    folder, before = device_folder(roots, pci), driver_of(roots, pci)
    try:
        (folder / "driver_override").write_text(f"{driver}\n")
        if before:
            (roots.sys / "bus/pci/drivers" / before / "unbind").write_text(pci)
        (roots.sys / "bus/pci/drivers_probe").write_text(pci)
    except OSError as error:
        raise HardwareError(f"GPU {pci}: {error.filename}: {error.strerror}") from None
    return _wait_until(lambda: _is_bound(driver_of(roots, pci), driver), timeout)


def _is_bound(current: str, driver: str) -> bool:
    return current == driver if driver else current not in ("", VFIO)


def _wait_until(condition: Callable[[], bool], timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(min(0.1, timeout))
    return True
