"""Simulated AMD GPUs: the kernel's files for a hardware profile, which respond to writes as the kernel does.

The driver reads and writes them like those of a host. A compute mode takes effect immediately, a memory mode when the
module is reloaded, and a compute mode that does not match the memory mode is rejected.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from allotment.cluster.clock import Clock
from allotment.decoding import decodable
from allotment.drivers.amd.kernel import KernelHardware
from allotment.drivers.amd.simulated.pci_functions import SimulatedFunctions
from allotment.drivers.amd.simulated.sysfs_tree import DeviceFile, FileTree, SymbolicLink, health_files, sysfs_tree
from allotment.files import atomic_write
from allotment.files.atomic_write import PUBLIC, Sync
from allotment.fleet.amd import Function, Gpu, GpuPartition, PartitionMode, functions_of, gpus_of
from allotment.fleet.description import FleetMachine
from allotment.fleet.modes import VirtualMachines

T = TypeVar("T")

_FAULT: Final = re.compile(r"gpu-([0-9]{1,3})=(gone|lost|ras)")


class SimulatedHardware(KernelHardware):
    """The hardware of a machine. ``state``: a folder that stores modes and driver bindings.

    It needs no clock, because changes are signalled and not polled.
    """

    def __init__(self, machine: FleetMachine, state: Path | None = None) -> None:
        model = machine.hardware.accelerator
        dies = max((profile.per_gpu for profile in model.partitions), default=1)
        gpus = gpus_of(machine.hardware, machine.node, machine.mode)
        virtual = machine.mode if isinstance(machine.mode, VirtualMachines) else None
        functions = functions_of(machine.hardware, virtual) if virtual is not None else ()
        self.simulated_files = SimulatedFiles(gpus, model.gfx, dies, functions, state)
        super().__init__(self.simulated_files, Clock(), reload=self.simulated_files.reload)

    async def call(self, function: Callable[[], T]) -> T:
        """Call the function directly: the files are in memory."""
        return function()

    async def changes(self) -> AsyncIterator[None]:
        """Yields when GPUs or partitions were added or removed, or a fault changed."""
        while True:
            changed = self.simulated_files.changed
            await changed.wait()
            yield

    def set_faults(self, text: str) -> None:
        """Set the faults in the text (``gpu-3=gone``, numbered in the order of PCI addresses) and clear all others.

        ``gone``: removed; ``lost``: present, but does not answer; ``ras``: uncorrectable memory errors. Raises
        ValueError.
        """
        faults: dict[int, str] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            match = _FAULT.fullmatch(part)
            if match is None:
                raise ValueError(f"expected gpu-NUMBER=gone, =lost or =ras, found {part!r}")
            if int(match[1]) >= self.simulated_files.count:
                raise ValueError(f"no GPU gpu-{match[1]}; GPUs on this node: {self.simulated_files.count}")
            faults[int(match[1])] = match[2]
        self.simulated_files.set_faults(faults)


class SimulatedFiles:
    """Files that follow the state of the simulated GPUs."""

    def __init__(
        self, gpus: tuple[Gpu, ...], gfx: str = "gfx942", dies: int = 1, functions: Sequence[Function] = (),
        state: Path | None = None,
    ) -> None:  # fmt: skip
        self._gpus = {gpu.pci: gpu for gpu in sorted(gpus)}
        self._gfx = gfx
        self._dies = dies
        self._functions = SimulatedFunctions(functions)
        self._faults: Mapping[int, str] = {}
        self._pending_memory: dict[str, str] = {}  # written, in effect after the next reload
        self.changed = asyncio.Event()
        #: Number of times the module was reloaded.
        self.reloads = 0
        self._state_file = StateFile(state)
        self._restore(self._state_file.read())
        self._rebuild()

    # --- the files ------------------------------------------------------------------------------------------------

    def read(self, path: str) -> str | None:
        content = self._tree.get(self._resolve(path))
        return content.strip() if isinstance(content, str) else None

    def listdir(self, path: str) -> tuple[str, ...]:
        return tuple(sorted(self._folders.get(self._resolve(path), ())))

    def readlink(self, path: str) -> str | None:
        folder, slash, name = path.rpartition("/")
        content = self._tree.get(f"{self._resolve(folder)}{slash}{name}")
        return content.target if isinstance(content, SymbolicLink) else None

    def group_id(self, path: str) -> int | None:
        content = self._tree.get(path)
        return content.group if isinstance(content, DeviceFile) else None

    def write(self, path: str, text: str) -> None:
        """Set a mode, or bind a driver. Raises OSError."""
        resolved = self._resolve(path)
        device, _, name = resolved.rpartition("/")
        gpu = self._gpus.get(device.rpartition("/")[2])
        if resolved not in self._tree:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if self._functions.write(resolved, text):
            self._save()
            self._rebuild()
            return
        if gpu is None:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        mode = text.strip().lower()
        if name == "current_memory_partition" and any(mode == setting.memory for setting in gpu.settings):
            self._pending_memory[gpu.pci] = mode
        elif name == "current_compute_partition":
            self._repartition(gpu, mode, gpu.memory)
            self._rebuild()
        else:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        self._save()

    def _resolve(self, path: str) -> str:
        """The path with symbolic links resolved."""
        parts = path.split("/")
        for end in range(len(parts), 0, -1):
            content = self._tree.get("/".join(parts[:end]))
            if isinstance(content, SymbolicLink):
                return self._resolve(os.path.normpath("/".join((*parts[: end - 1], content.target, *parts[end:]))))
        return path

    @property
    def count(self) -> int:
        """The number of GPUs, including removed and lost ones."""
        return len(self._gpus)

    # --- the GPUs -------------------------------------------------------------------------------------------------

    async def reload(self) -> None:
        """Reload the module, which applies pending memory modes."""
        self.reloads += 1
        for pci, memory in self._pending_memory.items():
            gpu = self._gpus[pci]
            # Setting a memory mode also sets a compute mode that is compatible with it.
            compute_modes = [setting.compute for setting in gpu.settings if setting.memory == memory]
            self._repartition(gpu, gpu.compute if gpu.compute in compute_modes else compute_modes[0], memory)
        self._pending_memory.clear()
        self._save()
        self._rebuild()

    def set_faults(self, faults: Mapping[int, str]) -> None:
        """Set the faults of GPUs by number and clear all others."""
        if faults != self._faults:
            self._faults = faults
            self._rebuild()

    def _restore(self, settings: SimulatedState) -> None:
        for pci, (compute, memory) in settings.modes.items():
            gpu = self._gpus[pci]
            if (gpu.compute, gpu.memory) != (compute, memory):
                self._repartition(gpu, compute, memory)
        self._pending_memory |= settings.waiting
        self._functions.restore(settings.drivers, settings.overrides)

    def _save(self) -> None:
        modes = {pci: (gpu.compute, gpu.memory) for pci, gpu in self._gpus.items() if gpu.settings}
        self._state_file.write(
            SimulatedState(modes, self._pending_memory, self._functions.drivers, self._functions.overrides)
        )

    def _repartition(self, gpu: Gpu, compute: str, memory: str) -> None:
        setting = next(
            (candidate for candidate in gpu.settings if (candidate.compute, candidate.memory) == (compute, memory)),
            None,
        )
        if setting is None:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._gpus[gpu.pci] = gpu._replace(compute=compute, memory=memory, parts=_equal_parts(gpu, setting))

    def _rebuild(self) -> None:
        present = {pci: self._faults.get(number, "") for number, pci in enumerate(self._gpus)}
        present = {pci: fault for pci, fault in present.items() if fault != "gone"}
        driven = [self._gpus[pci] for pci in present if not self._functions.is_detached(pci)]
        self._tree: FileTree = sysfs_tree(driven, self._gfx, self._dies) | self._functions.tree(present)
        for gpu in driven:
            self._tree |= health_files(gpu, present[gpu.pci])
        self._folders: dict[str, set[str]] = {}
        for path in self._tree:
            while path:
                path, _, name = path.rpartition("/")
                self._folders.setdefault(path, set()).add(name)
        self.changed.set()
        self.changed = asyncio.Event()


def _equal_parts(gpu: Gpu, setting: PartitionMode) -> tuple[GpuPartition, ...]:
    """The equal partitions of a GPU in a setting. They use the DRM numbers after the GPU's own, which are free."""
    count, first = setting.parts, gpu.parts[0]
    share = GpuPartition(
        first.card, first.render, sum(part.compute_units for part in gpu.parts) // count,
        sum(part.simd_units for part in gpu.parts) // count,
        sum(part.memory_bytes or 0 for part in gpu.parts) // count,
    )  # fmt: skip
    return tuple(share._replace(card=first.card + n, render=first.render + n) for n in range(count))


class SimulatedState(msgspec.Struct):
    """State of simulated GPUs by PCI address.

    ``modes``: compute and memory mode; ``waiting``: memory modes until the module is reloaded.
    """

    modes: dict[str, tuple[str, str]] = {}
    waiting: dict[str, str] = {}
    drivers: dict[str, str] = {}
    overrides: dict[str, str] = {}


class StateFile:
    """A file with the state that outlives the driver, replaced as a whole; without a folder nothing is stored."""

    def __init__(self, folder: Path | None) -> None:
        self._file = None if folder is None else folder / "hardware.json"

    def read(self) -> SimulatedState:
        """The stored state, or that of new hardware."""
        try:
            return (
                SimulatedState()
                if self._file is None
                else msgspec.json.decode(self._file.read_bytes(), type=decodable(SimulatedState))
            )
        except FileNotFoundError:
            return SimulatedState()

    def write(self, settings: SimulatedState) -> None:
        """Store the state. No fsync: it must outlive the driver, not a crash of the machine. Raises OSError."""
        if self._file is None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write.replace(self._file, msgspec.json.encode(settings), mode=PUBLIC, sync=Sync.NONE)
