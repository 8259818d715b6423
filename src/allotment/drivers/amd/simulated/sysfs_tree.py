"""Builds the sysfs and KFD files of a machine with given GPUs: files and links by path, in memory or in a folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from allotment.drivers.amd.sysfs import GPUS, MODULE, PCI, PLATFORM, TOPOLOGY
from allotment.fleet.amd import Gpu, GpuPartition

#: Major numbers of character devices: DRM's own, and one that kernels assign to KFD.
DRM_MAJOR: Final = 226
KFD_MAJOR: Final = 511
#: Ids of the groups ``video`` and ``render`` on Debian.
VIDEO_GROUP: Final = 44
RENDER_GROUP: Final = 109
_VENDOR: Final = "0x1002"


class SymbolicLink(NamedTuple):
    """A symbolic link."""

    target: str


class DeviceFile(NamedTuple):
    """A device file, written to a folder as an empty file. ``group``: id of the owning group."""

    group: int


FileTree = dict[str, "str | SymbolicLink | DeviceFile"]


def sysfs_tree(gpus: Sequence[Gpu], gfx: str = "gfx942", dies: int = 1) -> FileTree:
    """The files of a machine. ``dies``: of each GPU, which is the maximum number of its partitions."""
    files: FileTree = {f"{TOPOLOGY}/0/properties": "cpu_cores_count 96\nsimd_count 0\ndrm_render_minor 0\n"}
    if gpus:
        files |= {
            "sys/class/kfd/kfd/dev": f"{KFD_MAJOR}:0\n",
            "dev/kfd": DeviceFile(RENDER_GROUP),
            f"{MODULE}/version": gpus[0].driver_version + "\n",
            f"{MODULE}/srcversion": gpus[0].driver_source + "\n",
        }
    nodes = partitions = 0
    for gpu in gpus:
        device = f"sys/devices/{gpu.pcie_root or 'virtual'}/{gpu.pci}"
        files |= _gpu_files(gpu, device)
        for number, part in enumerate(gpu.parts):
            nodes += 1
            if number:
                folder = f"{PLATFORM}/amdgpu_xcp_{partitions}"
                partitions += 1
            else:
                folder = device
            files |= dict(_drm_files(folder, part))
            files |= _compute_node_files(nodes, gpu, number, gfx, max(1, dies // len(gpu.parts)))
    return files


def write_tree(gpus: Sequence[Gpu], root: Path, gfx: str = "gfx942", dies: int = 1) -> None:
    """Write the files to a folder, for a driver whose root is that folder."""
    for path, content in sysfs_tree(gpus, gfx, dies).items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, SymbolicLink):
            file.symlink_to(content.target)
        else:
            file.write_text(content if isinstance(content, str) else "")


def health_files(gpu: Gpu, fault: str = "") -> FileTree:
    """The files that show a GPU's health: error counters and PCI configuration. ``fault``: ``ras``, ``lost`` or
    none.
    """
    device = f"sys/devices/{gpu.pcie_root or 'virtual'}/{gpu.pci}"
    return {
        f"{device}/ras/features": "feature mask: 0x7ffff\n",
        f"{device}/ras/umc_err_count": f"ue: {int(fault == 'ras')}\nce: 0\n",
        f"{device}/ras/gfx_err_count": "ue: 0\nce: 0\n",
        f"{device}/config": "\N{REPLACEMENT CHARACTER}" * 64 if fault == "lost" else "\x02\x10",
    }


def _gpu_files(gpu: Gpu, device: str) -> FileTree:
    files: FileTree = {
        f"{GPUS}/{gpu.pci}": SymbolicLink(f"../../../../{device.removeprefix('sys/')}"),
        f"{PCI}/{gpu.pci}": SymbolicLink(f"../../../{device.removeprefix('sys/')}"),
        f"{device}/vendor": f"{_VENDOR}\n",
        f"{device}/device": f"{gpu.device_id}\n",
        f"{device}/product_name": gpu.product.replace("_", " ") + "\n",
        f"{device}/numa_node": f"{-1 if gpu.numa is None else gpu.numa}\n",
    }
    if gpu.compute:
        names = ", ".join(dict.fromkeys(setting.compute.upper() for setting in gpu.settings))
        files |= {
            f"{device}/current_compute_partition": f"{gpu.compute.upper()}\n",
            f"{device}/available_compute_partition": f"{names}\n",
        }
    if gpu.memory:
        files[f"{device}/current_memory_partition"] = f"{gpu.memory.upper()}\n"
    return files


def _drm_files(folder: str, part: GpuPartition) -> Iterator[tuple[str, str | SymbolicLink | DeviceFile]]:
    for name, minor, group in (
        (f"card{part.card}", part.card, VIDEO_GROUP),
        (f"renderD{part.render}", part.render, RENDER_GROUP),
    ):
        yield f"{folder}/drm/{name}/dev", f"{DRM_MAJOR}:{minor}\n"
        yield f"sys/class/drm/{name}", SymbolicLink(f"../../{folder.removeprefix('sys/')}/drm/{name}")
        yield f"dev/dri/{name}", DeviceFile(group)


def _compute_node_files(node: int, gpu: Gpu, number: int, gfx: str, dies: int) -> FileTree:
    domain, bus, rest = gpu.pci.split(":")
    slot, function = rest.split(".")
    location = int(bus, 16) << 8 | int(slot, 16) << 3 | int(function)
    part = gpu.parts[number]
    per_unit = part.simd_units // part.compute_units if part.compute_units else 4
    numbers = {
        "cpu_cores_count": 0,
        "simd_count": part.simd_units,
        "simd_per_cu": per_unit,
        "gfx_target_version": _target_version(gfx),
        "vendor_id": 0x1002,
        "device_id": int(gpu.device_id, 16),
        # The nodes of a partitioned GPU have the partition's number above the address.
        "location_id": location | (number << 28 if len(gpu.parts) > 1 else 0),
        "domain": int(domain, 16),
        "drm_render_minor": part.render,
        "unique_id": int(gpu.unique_id),
        "num_xcc": dies,
    }
    files: FileTree = {f"{TOPOLOGY}/{node}/properties": "".join(f"{name} {value}\n" for name, value in numbers.items())}
    if part.memory_bytes is not None:
        bank = f"heap_type 1\nsize_in_bytes {part.memory_bytes}\nflags 0\n"
        files[f"{TOPOLOGY}/{node}/mem_banks/0/properties"] = bank
    return files


def _target_version(gfx: str) -> int:
    """KFD's number for an instruction set.

    >>> _target_version("gfx942"), _target_version("gfx90a"), _target_version("gfx1100")
    (90402, 90010, 110000)
    """
    digits = gfx.removeprefix("gfx")
    return int(digits[:-2]) * 10_000 + int(digits[-2], 16) * 100 + int(digits[-1], 16)
