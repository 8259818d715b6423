"""Facts of one GPU, whoever found them: NVML on a real host, a profile elsewhere.

Everything that is published is made of these, so a simulated node and a real one of the same hardware look the same.
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
    """One GPU. ``pci`` (``0000:07:00.0``) is its name for good; ``minor`` is the N of ``/dev/nvidiaN``.

    ``mig``: what it could be cut into, None where it has no MIG; ``mig_enabled``: whether its MIG mode is on.
    ``memory_bytes``: None where the driver cannot tell (memory coherent with the CPU's). ``numa``, ``pcie_root``: None
    where the machine does not say. ``bar_bytes``: size of the aperture through which a virtual machine sees its memory.
    ``iommu_fd``: whether the host has ``/dev/iommu``; ``iommu_group``: of devices that only one virtual machine can
    have at a time, None where the machine does not say. ``vfio_bound``: it is handed to ``vfio-pci``, so that NVML
    cannot see it; most facts are empty then, unless it was seen before. ``compute_capability`` and the versions are in
    the driver's own words (``8.0``, ``580.105.08``).
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
    """The made-up UUID of the GPU at a PCI address of a node: the same one every time.

    >>> gpu_uuid("node-a100", "0000:07:00.0")
    'GPU-7b87886d-1164-5d74-9d38-3ac3c50b31dd'
    """
    return f"GPU-{name_uuid(f'{node}/{pci}')}"


def gpus_of(machine: Hardware, node: str, mode: Mode | None = None) -> tuple[Gpu, ...]:
    """The GPUs of a machine from its profile, in the order in which the real driver was seen to publish them.

    ``mode``: MIG is on where that mode has GPUs cut already, and where it needs MIG but cannot switch it (Ampere).
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
        # No profile says it; apertures are powers of two that hold the memory on all but small cards.
        bar_bytes=1 << (memory - 1).bit_length(),
    )
