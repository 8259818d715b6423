"""Reads GPUs from the kernel: drivers and devices in sysfs, compute nodes in KFD's topology.

A partition is a separate platform device that does not name its GPU. KFD does: the compute node with the partition's
render number has the PCI domain and location of the GPU. Both are needed, because two GPUs in different domains can
have the same location.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from allotment.drivers.amd.kernel_files import KernelFiles
from allotment.fleet.amd import Gpu, GpuPartition, partition_modes_of
from allotment.fleet.profiles import accelerators

MODULE: Final = "sys/module/amdgpu"
GPUS: Final = f"{MODULE}/drivers/pci:amdgpu"
PLATFORM: Final = "sys/devices/platform"
TOPOLOGY: Final = "sys/class/kfd/kfd/topology/nodes"
PCI: Final = "sys/bus/pci/devices"

ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
#: The number follows an underscore in older kernels, a dot in newer ones.
_PARTITION: Final = re.compile(r"amdgpu_xcp[._][0-9]+")

#: The module's names of GPU families, by the first number of KFD's target version.
_FAMILIES: Final = {9: "AI", 10: "NV", 11: "GC_11_0_0", 12: "GC_12_0_0"}

#: The part of ``location_id`` that is a PCI address; partitioned GPUs have the partition's number above it.
_LOCATION: Final = 0xFFFF


class _ComputeNode(NamedTuple):
    """A compute node of KFD's topology."""

    numbers: Mapping[str, int]
    memory_bytes: int | None

    @property
    def location(self) -> tuple[int, int]:
        """PCI domain and location."""
        return self.numbers.get("domain", 0), self.numbers.get("location_id", 0) & _LOCATION


def gpus(files: KernelFiles) -> tuple[Gpu, ...]:
    """Every GPU of the kernel module by PCI address, including those without KFD or partition modes."""
    nodes = _nodes(files)
    parts = _partitions(files, nodes)
    return tuple(
        _gpu(files, address, nodes, parts.get(_pci_location(address), ()))
        for address in files.listdir(GPUS)
        if ADDRESS.fullmatch(address) and _card_and_render(files, f"{GPUS}/{address}") is not None
    )


def signature(files: KernelFiles) -> object:
    """A value that is cheap to compute and changes when GPUs, partitions or other PCI functions are added or
    removed.
    """
    return (
        files.listdir(GPUS),
        files.listdir(PCI),
        tuple(name for name in files.listdir(PLATFORM) if _PARTITION.fullmatch(name)),
    )


def _gpu(
    files: KernelFiles, address: str, nodes: Mapping[int, _ComputeNode], others: tuple[tuple[int, int], ...]
) -> Gpu:
    path = f"{GPUS}/{address}"
    own = _card_and_render(files, path)
    assert own is not None
    renders = (own, *sorted(others, key=lambda numbers: numbers[1]))
    parts = tuple(_part(card, render, nodes.get(render)) for card, render in renders)
    own_node = nodes.get(own[1])
    numbers = own_node.numbers if own_node is not None else {}
    device_id = files.read(f"{path}/device") or ""
    compute, memory = _mode(files, path, "compute"), _mode(files, path, "memory")
    dies = sum(nodes[render].numbers.get("num_xcc", 0) for _, render in renders if render in nodes)
    available = tuple(
        name.strip().lower() for name in (files.read(f"{path}/available_compute_partition") or compute).split(",")
    )
    return Gpu(
        pci=address,
        parts=parts,
        product=product_of(files.read(f"{path}/product_name") or "", device_id),
        device_id=device_id,
        unique_id=str(numbers.get("unique_id", 0)),
        driver_version=files.read(f"{MODULE}/version") or "",
        driver_source=files.read(f"{MODULE}/srcversion") or "",
        family=_FAMILIES.get(numbers.get("gfx_target_version", 0) // 10_000, "unknown"),
        compute=compute,
        memory=memory,
        settings=partition_modes_of(device_id, available, memory, dies or len(parts)) if compute else (),
        numa=numa_of(files.read(f"{path}/numa_node")),
        pcie_root=root_of(files.readlink(f"{PCI}/{address}"), address),
    )


def _mode(files: KernelFiles, path: str, kind: str) -> str:
    """The current partition mode; empty if the GPU has none (MI250 and older, Radeon)."""
    text = (files.read(f"{path}/current_{kind}_partition") or "").lower()
    return "" if text == "unknown" else text


def _part(card: int, render: int, node: _ComputeNode | None) -> GpuPartition:
    if node is None:
        return GpuPartition(card, render, 0, 0, None)
    simds, per_unit = node.numbers.get("simd_count", 0), node.numbers.get("simd_per_cu", 0)
    return GpuPartition(card, render, simds // per_unit if per_unit else 0, simds, node.memory_bytes)


def product_of(name: str, device_id: str) -> str:
    """The model as the driver writes it; for a card without a product name, found by its PCI device id.

    >>> product_of("AMD Instinct MI300X (OAM)", ""), product_of("", "0x74a1"), product_of("", "0x1234")
    ('AMD_Instinct_MI300X_OAM', 'AMD_Instinct_MI300X_OAM', 'AMD_0x1234')
    """
    if name:
        return name.replace(" ", "_").replace("(", "").replace(")", "")
    for model in accelerators().values():
        if model.vendor == "amd" and model.pci_device == device_id:
            return model.product
    return f"AMD_{device_id}"


def numa_of(text: str | None) -> int | None:
    """The NUMA node; None for -1, with which the kernel reports no node."""
    return int(text) if text is not None and text.isdigit() else None


def root_of(link: str | None, address: str) -> str | None:
    """The PCIe root of a device, from its link in sysfs.

    >>> root_of("../../../devices/pci0000:00/0000:00:01.1/0000:05:00.0", "0000:05:00.0")
    'pci0000:00'
    """
    parts = (link or "").rpartition("devices/")[2].split("/")
    return parts[0] if parts[0].startswith("pci") and parts[-1] == address else None


def _pci_location(address: str) -> tuple[int, int]:
    """PCI domain and location in KFD's encoding.

    >>> _pci_location("0001:26:00.0")
    (1, 9728)
    """
    domain, bus, rest = address.split(":")
    device, function = rest.split(".")
    return int(domain, 16), int(bus, 16) << 8 | int(device, 16) << 3 | int(function)


def _card_and_render(files: KernelFiles, path: str) -> tuple[int, int] | None:
    """The card and render numbers of a device."""
    names = files.listdir(f"{path}/drm")
    cards = [int(name[4:]) for name in names if re.fullmatch("card[0-9]+", name)]
    renders = [int(name[7:]) for name in names if re.fullmatch("renderD[0-9]+", name)]
    return (cards[0], renders[0]) if cards and renders else None


def _partitions(
    files: KernelFiles, nodes: Mapping[int, _ComputeNode]
) -> dict[tuple[int, int], tuple[tuple[int, int], ...]]:
    """The card and render numbers of partitions, by the PCI location of their GPU."""
    partitions: dict[tuple[int, int], tuple[tuple[int, int], ...]] = {}
    for name in files.listdir(PLATFORM):
        numbers = _card_and_render(files, f"{PLATFORM}/{name}") if _PARTITION.fullmatch(name) else None
        # Partition devices remain when a GPU is no longer partitioned; only KFD knows those in use.
        if numbers is not None and numbers[1] in nodes:
            location = nodes[numbers[1]].location
            partitions[location] = (*partitions.get(location, ()), numbers)
    return partitions


def _nodes(files: KernelFiles) -> dict[int, _ComputeNode]:
    """Compute nodes that are GPUs or partitions, by render number."""
    nodes: dict[int, _ComputeNode] = {}
    for name in files.listdir(TOPOLOGY):
        numbers = _properties(files.read(f"{TOPOLOGY}/{name}/properties"))
        if numbers.get("simd_count") and numbers.get("drm_render_minor"):
            bank = _properties(files.read(f"{TOPOLOGY}/{name}/mem_banks/0/properties"))
            nodes[numbers["drm_render_minor"]] = _ComputeNode(numbers, bank.get("size_in_bytes"))
    return nodes


def _properties(text: str | None) -> dict[str, int]:
    """Parse lines of ``key number``."""
    pairs = (line.split() for line in (text or "").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
