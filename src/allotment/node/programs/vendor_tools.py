"""``nvidia-smi``, ``rocm-smi`` and ``amd-smi``, which show the devices of the container's claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from allotment.node.device_view import ContainerDevice
from allotment.node.programs.container_view import ContainerView, Program
from allotment.node.shell_language.process import Process

MEBIBYTE: Final = 2**20


async def _nvidia_smi(process: Process, inside: ContainerView) -> int:
    """``-L`` lists the devices; ``--query-gpu=… --format=csv`` and the bare form print them as CSV."""
    # A GPU that is passed through to a virtual machine is not visible to the vendor's driver.
    devices = [device for device in inside.devices if "nvidia" in device.driver and device.kind != "vfio"]
    if not devices:
        await process.streams.err(b"No devices were found\n")
        return 6
    if "-L" in process.words or "--list-gpus" in process.words:
        await process.print("".join(f"{line}\n" for line in _listed(devices)))
        return 0
    rows = "".join(f"{i}, {d.product}, {d.uuid}, {d.memory // MEBIBYTE} MiB\n" for i, d in enumerate(devices))
    await process.print(f"index, name, uuid, memory.total [MiB]\n{rows}")
    return 0


def _listed(devices: Sequence[ContainerDevice]) -> list[str]:
    whole = [device for device in devices if not device.profile]
    parts = [device for device in devices if device.profile]
    lines = [f"GPU {i}: {d.product} (UUID: {d.uuid})" for i, d in enumerate(whole)]
    parents = list(dict.fromkeys(part.parent for part in parts))
    for parent in parents:
        siblings = [part for part in parts if part.parent == parent]
        lines.append(f"GPU {len(whole) + parents.index(parent)}: {siblings[0].product} (UUID: {parent})")
        lines += [f"  MIG {p.profile:<10} Device {i:>2}: (UUID: {p.uuid})" for i, p in enumerate(siblings)]
    return lines


async def _rocm_smi(process: Process, inside: ContainerView) -> int:
    devices = [device for device in inside.devices if "amd" in device.driver and device.kind != "vfio"]
    if not devices:
        await process.streams.err(b"No AMD GPUs specified or found\n")
        return 1
    lines = [f"GPU[{i}]\t\t: {d.product}\t{(d.share or d.memory) // MEBIBYTE} MiB" for i, d in enumerate(devices)]
    await process.print("".join(f"{line}\n" for line in lines))
    return 0


def default_device_nodes(devices: Sequence[ContainerDevice]) -> list[str]:
    """The usual device nodes of devices whose driver reports none."""
    nvidia = [f"/dev/nvidia{i}" for i in range(sum("nvidia" in device.driver for device in devices))]
    amd = ["/dev/kfd", "/dev/dri"] if any("amd" in device.driver for device in devices) else []
    return [*amd, *nvidia, *(["/dev/nvidiactl"] if nvidia else [])]


VENDOR_TOOLS: Final[Mapping[str, Program]] = {
    "nvidia-smi": _nvidia_smi, "rocm-smi": _rocm_smi, "amd-smi": _rocm_smi,
}  # fmt: skip
