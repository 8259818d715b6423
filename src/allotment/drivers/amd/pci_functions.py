"""PCI functions of AMD's GPUs for virtual machines, read from PCI independently of the kernel driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.drivers.amd.kernel_files import KernelFiles
from allotment.drivers.amd.sysfs import ADDRESS, PCI, numa_of, product_of, root_of
from allotment.fleet.amd import Function
from allotment.fleet.amd.vfio import VENDOR
from allotment.fleet.modes import AMD_VIRTUAL_FUNCTIONS
from allotment.fleet.profiles import accelerators

#: Class codes of AMD's GPUs: display controllers and processing accelerators.
_GPUS: Final = ("0x03", "0x12")
_BRIDGE: Final = "0x06"

#: Kernel drivers that manage virtual functions of a GPU; the GPU itself stays bound to them.
_MANAGERS: Final = ("gim",)


def functions(files: KernelFiles) -> tuple[Function, ...]:
    """Every function that can be passed through, by PCI address; those without an IOMMU group cannot.

    A GPU that has virtual functions is left out: its virtual functions take its place.
    """
    return tuple(_functions(files))


def _functions(files: KernelFiles) -> Iterator[Function]:
    for pci in files.listdir(PCI):
        path = f"{PCI}/{pci}"
        if not ADDRESS.fullmatch(pci) or files.read(f"{path}/vendor") != VENDOR:
            continue
        if not (files.read(f"{path}/class") or "").startswith(_GPUS):
            continue
        group = iommu_group_of(files, pci)
        parent = (files.readlink(f"{path}/physfn") or "").rpartition("/")[2]
        virtual = _read_number(files, f"{PCI}/{parent or pci}/sriov_numvfs")
        driver = driver_of(files, pci)
        if group is None or (not parent and (virtual or driver in _MANAGERS)):
            continue
        device_id = files.read(f"{path}/device") or ""
        model = files.read(f"{PCI}/{parent}/device") or _MODELS.get(device_id, "") if parent else device_id
        yield Function(
            pci=pci,
            device_id=device_id,
            model=model,
            product=_product(files, parent or pci, model),
            group=group,
            parent=parent,
            slots=_read_number(files, f"{PCI}/{parent or pci}/sriov_totalvfs"),
            share=max(1, virtual) if parent else 1,
            numa=numa_of(files.read(f"{path}/numa_node")),
            pcie_root=root_of(files.readlink(path), pci),
            driver=driver,
        )


def _product(files: KernelFiles, gpu: str, model: str) -> str:
    """The model's name. The GPU's own name is used only for unknown models, because it cannot be read while passed
    through.
    """
    known = next(
        (
            accelerator
            for accelerator in accelerators().values()
            if accelerator.vendor == "amd" and accelerator.pci_device == model
        ),
        None,
    )
    return known.product if known is not None else product_of(files.read(f"{PCI}/{gpu}/product_name") or "", model)


_MODELS: Final = {virtual: whole for whole, virtual in AMD_VIRTUAL_FUNCTIONS.items()}


def driver_of(files: KernelFiles, pci: str) -> str:
    """The kernel driver that a device is bound to; empty for none."""
    return (files.readlink(f"{PCI}/{pci}/driver") or "").rpartition("/")[2]


def iommu_group_of(files: KernelFiles, pci: str) -> int | None:
    """The number of a device's IOMMU group; None without an IOMMU."""
    name = (files.readlink(f"{PCI}/{pci}/iommu_group") or "").rpartition("/")[2]
    return int(name) if name.isdecimal() else None


def iommu_group_peers(files: KernelFiles, pci: str) -> tuple[str, ...]:
    """Other devices of the same IOMMU group, without bridges: a virtual machine gets all or none."""
    names = files.listdir(f"{PCI}/{pci}/iommu_group/devices")
    return tuple(
        name for name in names
        if name != pci and not (files.read(f"{PCI}/{name}/class") or "").startswith(_BRIDGE)
    )  # fmt: skip


def processes_using(files: KernelFiles, pci: str) -> tuple[str, ...]:
    """Ids of the processes that have a GPU's DRM devices open."""
    paths = {f"/dev/dri/{name}" for name in files.listdir(f"{PCI}/{pci}/drm")}
    if not paths:
        return ()
    return tuple(
        pid for pid in files.listdir("proc")
        if pid.isdecimal()
        and any(files.readlink(f"proc/{pid}/fd/{number}") in paths for number in files.listdir(f"proc/{pid}/fd"))
    )  # fmt: skip


def _read_number(files: KernelFiles, path: str) -> int:
    text = files.read(path) or ""
    return int(text) if text.isdecimal() else 0
