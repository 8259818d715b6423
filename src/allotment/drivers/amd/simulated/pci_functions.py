"""Simulated PCI functions for virtual machines: their files, and the kernel's binding of drivers to them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from allotment.drivers.amd.pci_binding import VFIO
from allotment.drivers.amd.simulated.sysfs_tree import DeviceFile, FileTree, SymbolicLink
from allotment.drivers.amd.sysfs import PCI
from allotment.fleet.amd import Function
from allotment.fleet.amd.vfio import VENDOR

_DRIVERS: Final = "sys/bus/pci/drivers"
_PROBE: Final = "sys/bus/pci/drivers_probe"
_VFIO_MAJOR: Final = 242
_CLASS: Final = "0x120000"
_MANAGER: Final = "gim"


class SimulatedFunctions:
    """The functions of a machine. A GPU with virtual functions is bound to the driver that manages them."""

    def __init__(self, functions: Sequence[Function] = ()) -> None:
        self.by_address = {function.pci: function for function in functions}
        self._default_drivers = {function.pci: function.driver for function in functions}
        self.overrides: dict[str, str] = {}

    @property
    def drivers(self) -> dict[str, str]:
        """The kernel driver of each function."""
        return {pci: function.driver for pci, function in self.by_address.items()}

    def restore(self, drivers: Mapping[str, str], overrides: Mapping[str, str]) -> None:
        """Load the bindings that an earlier process stored."""
        for pci, driver in drivers.items():
            self.by_address[pci] = self.by_address[pci]._replace(driver=driver)
        self.overrides |= overrides

    def is_detached(self, pci: str) -> bool:
        """Whether a GPU is not bound to AMD's driver."""
        function = self.by_address.get(pci)
        parents = {other.parent for other in self.by_address.values()}
        return pci in parents if function is None else function.driver != "amdgpu"

    def write(self, path: str, text: str) -> bool:
        """Apply a write as the kernel would; returns whether the file is one of these. Raises OSError."""
        folder, _, name = path.rpartition("/")
        pci = text.strip()
        if name == "driver_override":
            self.overrides[folder.rpartition("/")[2]] = pci
        elif name == "unbind":
            function = self.by_address.get(pci)
            if function is None or function.driver != folder.rpartition("/")[2]:
                raise OSError(errno.ENODEV, os.strerror(errno.ENODEV), path)
            self.by_address[pci] = function._replace(driver="")
        elif path == _PROBE:
            function = self.by_address[pci]
            self.by_address[pci] = function._replace(
                driver=function.driver or self.overrides.get(pci) or self._default_drivers[pci]
            )
        else:
            return False
        return True

    def tree(self, gpus: Iterable[str]) -> FileTree:
        """The files. ``gpus``: addresses of the present GPUs; the functions of other GPUs are left out."""
        if not self.by_address:
            return {}
        present = set(gpus)
        files: FileTree = {
            _PROBE: "",
            "dev/vfio/vfio": DeviceFile(0),
            "sys/class/misc/vfio/dev": "10:196\n",
            "dev/iommu": DeviceFile(0),
            "sys/class/misc/iommu/dev": "10:126\n",
        }
        parents: dict[str, Function] = {}
        for number, function in enumerate(self.by_address.values()):
            if (function.parent or function.pci) not in present:
                continue
            files |= _function_files(function)
            files[f"{_device_path(function)}/driver_override"] = f"{self.overrides.get(function.pci) or '(null)'}\n"
            if function.driver == VFIO:
                files |= _vfio_files(function, number)
            if function.parent:
                parents[function.parent] = function
        for pci, function in parents.items():
            gpu = function._replace(pci=pci, parent="", device_id=function.model, driver=_MANAGER, group=-1)
            files |= _function_files(gpu)
            files[f"{_device_path(gpu)}/sriov_numvfs"] = f"{function.share}\n"
        return files


def _device_path(function: Function) -> str:
    return f"sys/devices/{function.pcie_root or 'virtual'}/{function.pci}"


def _function_files(function: Function) -> FileTree:
    device = _device_path(function)
    files: FileTree = {
        f"{PCI}/{function.pci}": SymbolicLink(f"../../../{device.removeprefix('sys/')}"),
        f"{device}/vendor": f"{VENDOR}\n",
        f"{device}/class": f"{_CLASS}\n",
        f"{device}/device": f"{function.device_id}\n",
        f"{device}/numa_node": f"{-1 if function.numa is None else function.numa}\n",
    }
    if function.group >= 0:
        files[f"{device}/iommu_group"] = SymbolicLink(f"../../../kernel/iommu_groups/{function.group}")
        files[f"sys/kernel/iommu_groups/{function.group}/devices/{function.pci}"] = ""
    if function.parent:
        files[f"{device}/physfn"] = SymbolicLink(f"../{function.parent}")
    elif function.slots:
        files |= {f"{device}/sriov_totalvfs": f"{function.slots}\n", f"{device}/sriov_numvfs": "0\n"}
    if function.driver:
        files[f"{device}/driver"] = SymbolicLink(f"../../../bus/pci/drivers/{function.driver}")
        files[f"{_DRIVERS}/{function.driver}/unbind"] = ""
    return files


def _vfio_files(function: Function, number: int) -> FileTree:
    return {
        f"dev/vfio/{function.group}": DeviceFile(0),
        f"sys/class/vfio/{function.group}/dev": f"{_VFIO_MAJOR}:{function.group}\n",
        f"{_device_path(function)}/vfio-dev/vfio{number}/dev": f"{_VFIO_MAJOR}:{128 + number}\n",
        f"dev/vfio/devices/vfio{number}": DeviceFile(0),
    }
