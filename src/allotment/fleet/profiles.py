"""Hardware profiles: accelerator models and servers with their PCI topology.

The data are two packaged JSON files, edited by hand: one record per accelerator and per server, tables as rows. Every
record lists in ``unverified`` the fields that no capture from real hardware confirmed. Figures are those that drivers
report (ECC on), not the advertised ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType

import msgspec

from allotment.decoding import decodable

MIB = 1 << 20


class HardwareRecord(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base of the packaged records."""


class HardwareRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Base of the packaged table rows: values in field order."""


class MigProfile(HardwareRow, frozen=True):
    """One MIG profile. ``starts`` and ``size`` are in memory slices, the unit of placements."""

    name: str
    gi_id: int
    max_instances: int
    starts: tuple[int, ...]
    size: int
    memory_mib: int
    multiprocessors: int
    copy_engines: int
    decoders: int
    encoders: int
    jpeg_engines: int
    ofa_engines: int


class Mig(HardwareRecord, frozen=True):
    """MIG of a GPU; ``reset_to_toggle``: switching the mode needs a GPU reset (Ampere)."""

    reset_to_toggle: bool
    profiles: tuple[MigProfile, ...]

    @property
    def memory_slices(self) -> int:
        """Width of the placement grid: the end of the largest placement (8 on A100, 4 on A30, 12 on RTX PRO)."""
        return max(start + profile.size for profile in self.profiles for start in profile.starts)


class Partition(HardwareRow, frozen=True):
    """One compute × memory partition mode of an AMD GPU; the figures are of a single partition."""

    compute: str
    memory: str
    per_gpu: int
    compute_units: int
    simd_units: int
    memory_mib: int

    @property
    def profile(self) -> str:
        """The name as published, such as ``cpx_nps1``."""
        return f"{self.compute}_{self.memory}"


class Link(HardwareRecord, frozen=True):
    """GPU to GPU links; ``link_gbps`` in GB/s (NVLink: one direction, xGMI: both)."""

    links: int
    link_gbps: float = msgspec.field(name="linkGBps")
    version: int = 0
    fabric: bool = False


class Accelerator(HardwareRecord, frozen=True):
    """One accelerator model. ``memory_mib`` is what NVML or KFD reports; ``product`` is the driver's attribute.

    ``memory_bound``: the memory is the smallest figure that is known, and drivers may report more (ECC off, a newer
    driver, or no capture exists).
    """

    id: str
    aliases: tuple[str, ...]
    vendor: str
    product: str
    architecture: str
    form_factor: str
    memory_mib: int = msgspec.field(name="memoryMiB")
    memory_type: str
    pci_device: str
    pcie: tuple[int, int]
    power_w: int
    driver_version: str
    memory_bound: bool = False
    min_power_w: int | None = None
    brand: str = ""
    cuda_driver_version: str = ""
    compute_capability: str = ""
    multiprocessors: int = 0
    cuda_cores: int = 0
    compute_units: int = 0
    simd_units: int = 0
    family: str = ""
    gfx: str = ""
    nvlink: Link | None = None
    xgmi: Link | None = None
    mig: Mig | None = None
    partitions: tuple[Partition, ...] = ()
    unverified: tuple[str, ...] = ()


class Slot(HardwareRow, frozen=True):
    """The PCI slot of a GPU in a server. AMD names devices by the DRM numbers ``card`` and ``render``."""

    pci: str
    numa: int
    pcie_root: str
    card: int = -1
    render: int = -1


class Nic(HardwareRow, frozen=True):
    """A network adapter and the GPUs it is near; relation as in ``nvidia-smi topo``: PIX one switch, PXB several."""

    name: str
    relation: str
    near_gpus: tuple[int, ...]


class Server(HardwareRecord, frozen=True):
    """One server model. ``order`` is the order in which the real driver was seen to publish its GPUs."""

    id: str
    title: str
    accelerator: str
    gpus: tuple[Slot, ...]
    cpu: str = ""
    socket_of_numa: tuple[int, ...] = ()
    nvlink: str = ""
    nvlink_matrix: tuple[str, ...] = ()
    nv_switches: int = 0
    nics: tuple[Nic, ...] = ()
    order: tuple[int, ...] = ()
    unverified: tuple[str, ...] = ()


def _read(file: str) -> bytes:
    return resources.files("allotment.fleet").joinpath("data", file).read_bytes()


@cache
def accelerators() -> Mapping[str, Accelerator]:
    """Every accelerator by id.

    >>> accelerators()["nvidia-t4-16gb"].memory_mib
    15360
    """
    records = msgspec.json.decode(_read("accelerators.json"), type=decodable(tuple[Accelerator, ...]))
    return MappingProxyType({record.id: record for record in records})


@cache
def servers() -> Mapping[str, Server]:
    """Every server by id.

    >>> len(servers()["dgx-a100-40gb"].gpus)
    8
    """
    records = msgspec.json.decode(_read("servers.json"), type=decodable(tuple[Server, ...]))
    return MappingProxyType({record.id: record for record in records})
