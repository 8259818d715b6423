"""Facts of one NVIDIA GPU, from NVML on a real host or from a hardware profile.

All published devices are built from these facts, so a simulated node publishes the same as real hardware.
"""

from __future__ import annotations

from typing import NamedTuple

from allotment.fleet.hardware import Hardware
from allotment.fleet.identity import name_uuid
from allotment.fleet.modes import DynamicMig, Mode, StaticMig
from allotment.fleet.profiles import MIB, Mig

DRIVER = "gpu.nvidia.com"


class Fabric(NamedTuple):
    """The NVLink domain that a GPU is part of (multi-node NVLink): only GPUs of one clique reach each other."""

    cluster: str
    clique: int

    def __str__(self) -> str:
        return f"{self.cluster}.{self.clique}"


class Gpu(NamedTuple):
    """One GPU. ``pci`` (``0000:07:00.0``) is its stable identity; ``minor`` is the N of ``/dev/nvidiaN``.

    ``mig``: its MIG profiles, or None without MIG; ``mig_enabled``: whether MIG mode is on. ``memory_bytes``: None if
    the driver does not report it (memory coherent with the CPU's). ``numa``, ``pcie_root``: None if unknown.
    ``bar_bytes``: size of the aperture through which a virtual machine accesses its memory.
    ``iommu_fd``: whether the host has ``/dev/iommu``; ``iommu_group``: of devices that only one virtual machine can
    have at a time, or None if unknown. ``vfio_bound``: bound to ``vfio-pci``, so that NVML does not report it; most
    facts are empty then, unless they were read before. ``compute_capability`` and the versions are in
    the driver's format (``8.0``, ``580.105.08``).
    """

    pci: str
    uuid: str
    minor: int
    product: str
    brand: str
    architecture: str
    compute_capability: str
    driver_version: str
    cuda_driver_version: str
    memory_bytes: int | None
    multiprocessors: int = 0
    device_id: str = ""
    numa: int | None = None
    pcie_root: str | None = None
    mig: Mig | None = None
    mig_enabled: bool = False
    fabric: Fabric | None = None
    addressing_mode: str | None = None
    bar_bytes: int | None = None
    iommu_fd: bool = False
    iommu_group: int | None = None
    vfio_bound: bool = False


def gpu_uuid(node: str, pci: str) -> str:
    """Return the generated, stable UUID of the GPU at a PCI address of a node.

    >>> gpu_uuid("node-a100", "0000:07:00.0")
    'GPU-7b87886d-1164-5d74-9d38-3ac3c50b31dd'
    """
    return f"GPU-{name_uuid(f'{node}/{pci}')}"


def gpus_of(machine: Hardware, node: str, mode: Mode | None = None) -> tuple[Gpu, ...]:
    """Return the GPUs of a machine from its profile, in the order in which the real driver publishes them.

    ``mode``: MIG mode is on if the mode has static MIG devices, or needs MIG but cannot switch it (Ampere).
    """
    return tuple(_gpu(machine, node, number, _mig_enabled(machine, number, mode)) for number in machine.order)


def _mig_enabled(machine: Hardware, number: int, mode: Mode | None) -> bool:
    match mode:
        case StaticMig(layouts):
            return bool(layouts[number])
        case DynamicMig():
            mig = machine.accelerator.mig
            return mig is not None and mig.reset_to_toggle
        case _:
            return False


def _gpu(machine: Hardware, node: str, number: int, mig_enabled: bool) -> Gpu:
    model, slot = machine.accelerator, machine.slots[number]
    memory = model.memory_mib * MIB
    return Gpu(
        pci=slot.pci,
        uuid=gpu_uuid(node, slot.pci),
        minor=number,
        product=model.product,
        brand=model.brand,
        architecture=model.architecture,
        compute_capability=model.compute_capability,
        driver_version=model.driver_version,
        cuda_driver_version=model.cuda_driver_version,
        memory_bytes=memory,
        multiprocessors=model.multiprocessors,
        device_id=model.pci_device,
        numa=slot.numa,
        pcie_root=slot.pcie_root,
        mig=model.mig,
        mig_enabled=mig_enabled,
        # Not in the profiles; except on small cards, the aperture is the memory rounded up to a power of two.
        bar_bytes=1 << (memory - 1).bit_length(),
    )
