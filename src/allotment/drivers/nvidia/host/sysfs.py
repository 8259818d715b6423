"""PCI devices and their kernel drivers, read from sysfs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from allotment.drivers.nvidia.host.roots import Roots

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")

_NVIDIA = "0x10de"
#: Class codes of NVIDIA's GPUs: VGA and other display controllers.
_DISPLAY = "0x03"
_BRIDGE = "0x06"


class PciLocation(NamedTuple):
    """The location of a device in the machine; None for what the machine does not report, as on some virtual
    machines.
    """

    numa: int | None
    pcie_root: str | None
    bar_bytes: int | None
    device_id: str


def device_folder(roots: Roots, pci: str) -> Path:
    """The sysfs folder of a PCI device."""
    return roots.sys / "bus/pci/devices" / pci


def read(path: Path) -> str:
    """The text of a small file; empty if it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def pci_location(roots: Roots, pci: str) -> PciLocation:
    """The location of the device at a PCI address."""
    folder = device_folder(roots, pci)
    numa = read(folder / "numa_node")
    return PciLocation(
        numa=int(numa) if numa.isdecimal() else None,  # -1: not reported by the firmware
        pcie_root=pcie_root(folder, pci),
        bar_bytes=_aperture(read(folder / "resource")),
        device_id=read(folder / "device"),
    )


def pcie_root(folder: Path, pci: str) -> str | None:
    """The root complex of a device: ``pci0000:47`` of …/devices/pci0000:47/0000:47:01.0/<pci>."""
    try:
        target = str(folder.readlink())
    except OSError:
        return None
    parts = target.rpartition("devices/")[2].split("/")
    return parts[0] if parts[0].startswith("pci") and parts[-1] == pci else None


def _aperture(resource: str) -> int | None:
    """Size of the second region (BAR 1), which maps a GPU's memory, from lines of ``start end flags``."""
    lines = resource.splitlines()
    numbers = lines[1].split() if len(lines) > 1 else []
    if len(numbers) < 2:
        return None
    start, end = int(numbers[0], 16), int(numbers[1], 16)
    return end - start + 1 if end > start else None


def bound_to(roots: Roots, driver: str) -> frozenset[str]:
    """Addresses of the devices that are bound to a kernel driver."""
    folder = roots.sys / "bus/pci/drivers" / driver
    try:
        return frozenset(entry.name for entry in folder.iterdir() if _ADDRESS.fullmatch(entry.name))
    except OSError:
        return frozenset()


def driver_of(roots: Roots, pci: str) -> str:
    """The kernel driver that a device is bound to; empty for none."""
    try:
        return (device_folder(roots, pci) / "driver").readlink().name
    except OSError:
        return ""


def vfio_gpus(roots: Roots) -> tuple[str, ...]:
    """Addresses of NVIDIA's GPUs that are bound to vfio-pci."""
    gpus = []
    for pci in sorted(bound_to(roots, "vfio-pci")):
        folder = device_folder(roots, pci)
        if read(folder / "vendor") == _NVIDIA and read(folder / "class").startswith(_DISPLAY):
            gpus.append(pci)
    return tuple(gpus)


def iommu_group(roots: Roots, pci: str) -> int | None:
    """The number of a device's IOMMU group; None without an IOMMU."""
    try:
        name = (device_folder(roots, pci) / "iommu_group").readlink().name
    except OSError:
        return None
    return int(name) if name.isdecimal() else None


def iommu_group_peers(roots: Roots, pci: str) -> tuple[str, ...]:
    """Other devices of the same IOMMU group, without bridges: a virtual machine gets all or none."""
    folder = device_folder(roots, pci) / "iommu_group/devices"
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.name != pci)
    except OSError:
        return ()
    return tuple(name for name in names if not read(device_folder(roots, name) / "class").startswith(_BRIDGE))


def drm_nodes(roots: Roots, pci: str) -> tuple[str, ...]:
    """Names of a GPU's nodes under ``/dev/dri``: ``card1``, ``renderD129``."""
    try:
        names = sorted(entry.name for entry in (device_folder(roots, pci) / "drm").iterdir())
    except OSError:
        return ()
    return tuple(name for name in names if re.fullmatch(r"(card|renderD)[0-9]+", name))
