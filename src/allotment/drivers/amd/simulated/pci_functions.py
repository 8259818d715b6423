"""PCI functions that are not there, for virtual machines: their files, and the kernel's binding of drivers to them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from allotment.drivers.amd.pci_binding import VFIO
from allotment.drivers.amd.simulated.sysfs_tree import SymbolicLink, DeviceFile, FileTree
from allotment.drivers.amd.sysfs import PCI
from allotment.fleet.amd import Function
from allotment.fleet.amd.vfio import VENDOR

_DRIVERS: Final = "sys/bus/pci/drivers"
_PROBE: Final = "sys/bus/pci/drivers_probe"
_VFIO_MAJOR: Final = 242
_CLASS: Final = "0x120000"
_MANAGER: Final = "gim"


class SimulatedFunctions:
    """The functions of a machine. GPUs that have virtual ones belong to the driver that manages these."""

    def __init__(self, functions: Sequence[Function] = ()) -> None:
        self.by_address = {one.pci: one for one in functions}
        self._meant_for = {one.pci: one.driver for one in functions}
        self.overrides: dict[str, str] = {}

    @property
    def drivers(self) -> dict[str, str]:
        """Who drives each function now."""
        return {pci: one.driver for pci, one in self.by_address.items()}

    def restore(self, drivers: Mapping[str, str], overrides: Mapping[str, str]) -> None:
        """Have it as an earlier process left it."""
        for pci, driver in drivers.items():
            self.by_address[pci] = self.by_address[pci]._replace(driver=driver)
        self.overrides |= overrides

    def is_detached(self, pci: str) -> bool:
        """Whether something else than AMD's driver has a GPU."""
        one = self.by_address.get(pci)
        parents = {function.parent for function in self.by_address.values()}
        return pci in parents if one is None else one.driver != "amdgpu"

    def write(self, path: str, text: str) -> bool:
        """What the kernel makes of a write; whether the file is one of these. Raises OSError."""
        folder, _, name = path.rpartition("/")
        pci = text.strip()
        if name == "driver_override":
            self.overrides[folder.rpartition("/")[2]] = pci
        elif name == "unbind":
            one = self.by_address.get(pci)
            if one is None or one.driver != folder.rpartition("/")[2]:
                raise OSError(errno.ENODEV, os.strerror(errno.ENODEV), path)
            self.by_address[pci] = one._replace(driver="")
        elif path == _PROBE:
            one = self.by_address[pci]
            self.by_address[pci] = one._replace(driver=one.driver or self.overrides.get(pci) or self._meant_for[pci])
        else:
            return False
        return True

    def tree(self, there: Iterable[str]) -> FileTree:
        """The files. ``there``: addresses of the GPUs that are; functions of others are gone with them."""
        if not self.by_address:
            return {}
        places = set(there)
        found: FileTree = {
            _PROBE: "",
            "dev/vfio/vfio": DeviceFile(0),
            "sys/class/misc/vfio/dev": "10:196\n",
            "dev/iommu": DeviceFile(0),
            "sys/class/misc/iommu/dev": "10:126\n",
        }
        parents: dict[str, Function] = {}
        for number, one in enumerate(self.by_address.values()):
            if (one.parent or one.pci) not in places:
                continue
            found |= _function(one)
            found[f"{_device(one)}/driver_override"] = f"{self.overrides.get(one.pci) or '(null)'}\n"
            if one.driver == VFIO:
                found |= _handed_over(one, number)
            if one.parent:
                parents[one.parent] = one
        for pci, one in parents.items():
            whole = one._replace(pci=pci, parent="", device_id=one.model, driver=_MANAGER, group=-1)
            found |= _function(whole)
            found[f"{_device(whole)}/sriov_numvfs"] = f"{one.share}\n"
        return found


def _device(one: Function) -> str:
    return f"sys/devices/{one.pcie_root or 'virtual'}/{one.pci}"


def _function(one: Function) -> FileTree:
    device = _device(one)
    found: FileTree = {
        f"{PCI}/{one.pci}": SymbolicLink(f"../../../{device.removeprefix('sys/')}"),
        f"{device}/vendor": f"{VENDOR}\n",
        f"{device}/class": f"{_CLASS}\n",
        f"{device}/device": f"{one.device_id}\n",
        f"{device}/numa_node": f"{-1 if one.numa is None else one.numa}\n",
    }
    if one.group >= 0:
        found[f"{device}/iommu_group"] = SymbolicLink(f"../../../kernel/iommu_groups/{one.group}")
        found[f"sys/kernel/iommu_groups/{one.group}/devices/{one.pci}"] = ""
    if one.parent:
        found[f"{device}/physfn"] = SymbolicLink(f"../{one.parent}")
    elif one.slots:
        found |= {f"{device}/sriov_totalvfs": f"{one.slots}\n", f"{device}/sriov_numvfs": "0\n"}
    if one.driver:
        found[f"{device}/driver"] = SymbolicLink(f"../../../bus/pci/drivers/{one.driver}")
        found[f"{_DRIVERS}/{one.driver}/unbind"] = ""
    return found


def _handed_over(one: Function, number: int) -> FileTree:
    return {
        f"dev/vfio/{one.group}": DeviceFile(0),
        f"sys/class/vfio/{one.group}/dev": f"{_VFIO_MAJOR}:{one.group}\n",
        f"{_device(one)}/vfio-dev/vfio{number}/dev": f"{_VFIO_MAJOR}:{128 + number}\n",
        f"dev/vfio/devices/vfio{number}": DeviceFile(0),
    }
