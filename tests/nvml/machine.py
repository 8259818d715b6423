"""A temporary host: the kernel's files of GPUs, the driver's files, and programs that record their calls."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from allotment.drivers.nvidia.host import Roots
from tests.nvml.library import Fake

VERSION = "550.163.01"

_LIBRARIES = ("libcuda.so", "libnvidia-ptxjitcompiler.so")

#: Records each call as one line, and each command of the MPS control daemon.
_RECORD = """#!/bin/sh
echo "$(basename "$0") $*" >> "$(dirname "$0")/../../calls"
"""

_SMI = """
[ -e "$(dirname "$0")/../../smi-fails" ] && cat "$(dirname "$0")/../../smi-fails" && exit 3
exit 0
"""

_CONTROL = """
control="$CUDA_MPS_PIPE_DIRECTORY/control"
root="$(dirname "$0")/../.."
if [ "$1" = "-d" ]; then
    echo "daemon of $CUDA_VISIBLE_DEVICES" >> "$root/calls"
    [ -e "$root/mps-fails" ] && echo "An instance of this daemon is already running" && exit 1
    [ -e "$root/mps-hangs" ] || echo up > "$control"
    exit 0
fi
while read -r command; do
    echo "command $command" >> "$root/calls"
    [ -e "$control" ] || { echo "Cannot find MPS control daemon process"; exit 1; }
    case "$command" in
        quit) [ -e "$root/mps-stubborn" ] || rm "$control" ;;
        *pinned_mem_limit*) [ -e "$root/mps-refuses" ] && echo "Invalid device" ;;
    esac
done
exit 0
"""


class Machine(NamedTuple):
    """A temporary host. ``nvml``: the controls of its library."""

    roots: Roots
    nvml: Fake

    @property
    def root(self) -> Path:
        """The driver's root, which also contains the files that control the programs."""
        return self.roots.driver

    def calls(self) -> list[str]:
        """The recorded calls and commands."""
        path = self.root / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def gpu(self, model: int, bus: int, uuid: str, *, mig: bool = False, numa: int = 0, root: str = "pci0000:00",
            device: str = "0x20b0", bar: int = 1 << 36, group: int | None = None) -> str:  # fmt: skip
        """Add a GPU; returns its PCI address."""
        self.nvml.gpu(model, bus, uuid, mig=mig)
        pci = f"0000:{bus:02x}:00.0"
        self.wire(pci, numa=numa, root=root, device=device, bar=bar, group=group)
        self.bind(pci, "nvidia")
        return pci

    def wire(self, pci: str, *, numa: int, root: str, device: str, bar: int, group: int | None) -> None:
        """Write the kernel's files of a device."""
        folder = self.roots.sys / "devices" / root / "0000:00:01.1" / pci
        (folder / "drm/card1").mkdir(parents=True)
        (folder / "drm/renderD129").mkdir()
        regions = [(0xF5000000, 1 << 24), (1 << 40, bar)]
        files = {
            "numa_node": str(numa),
            "vendor": "0x10de",
            "device": device,
            "class": "0x030200",
            "driver_override": "(null)",
            "resource": "\n".join(f"{start:#018x} {start + size - 1:#018x} 0x40200" for start, size in regions),
        }
        for name, text in files.items():
            (folder / name).write_text(f"{text}\n")
        (self.roots.sys / "bus/pci/devices").mkdir(parents=True, exist_ok=True)
        (self.roots.sys / "bus/pci/devices" / pci).symlink_to(folder)
        if group is not None:
            home = self.roots.sys / f"kernel/iommu_groups/{group}"
            (home / "devices").mkdir(parents=True, exist_ok=True)
            (home / "devices" / pci).symlink_to(folder)
            (folder / "iommu_group").symlink_to(home)

    def bind(self, pci: str, driver: str) -> None:
        """Bind a device to a kernel driver; empty for none."""
        folder = self.roots.sys / "bus/pci/devices" / pci
        link = folder / "driver"
        if link.is_symlink():
            (link.readlink() / pci).unlink(missing_ok=True)
            link.unlink()
        if driver:
            home = self.roots.sys / "bus/pci/drivers" / driver
            home.mkdir(parents=True, exist_ok=True)
            (home / pci).symlink_to(folder.resolve())
            link.symlink_to(home)

    def capability(self, minor: int, path: str, number: int) -> None:
        """Write the device number of a MIG instance's capability."""
        file = self.roots.proc / f"driver/nvidia/capabilities/gpu{minor}/mig/{path}/access"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"DeviceFileMinor: {number}\nDeviceFileMode: 292\nDeviceFileModify: 1\n")


def build(folder: Path, library: Path) -> Machine:
    """A host with a driver and no GPUs."""
    driver = folder / "driver"
    libraries, programs = driver / "usr/lib/x86_64-linux-gnu", driver / "usr/bin"
    for each in (libraries, programs, folder / "sys", folder / "proc", folder / "dev/dri", folder / "state"):
        each.mkdir(parents=True)
    shutil.copy(library, libraries)
    for name in _LIBRARIES:
        (libraries / f"{name}.{VERSION}").write_bytes(b"")
        (libraries / f"{name}.1").symlink_to(f"{name}.{VERSION}")
    (libraries / "libcuda.so").symlink_to("libcuda.so.1")
    for name, body in (("nvidia-smi", _SMI), ("nvidia-cuda-mps-control", _CONTROL)):
        (programs / name).write_text(_RECORD + body)
        (programs / name).chmod(0o755)
    for name in ("nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1"):
        (folder / "dev" / name).write_bytes(b"")
    (folder / "proc/devices").write_text(
        "Character devices:\n  1 mem\n195 nvidia\n235 nvidia-caps\n\nBlock devices:\n  8 sd\n"
    )
    (folder / "proc/meminfo").write_text("MemTotal:       65536 kB\nMemFree:        1 kB\n")
    return Machine(roots_of(folder), Fake(libraries / library.name))


def roots_of(folder: Path) -> Roots:
    """The roots of a host that was built in a folder."""
    parts = {name: folder / name for name in ("driver", "sys", "proc", "dev", "state")}
    return Roots(**parts)
