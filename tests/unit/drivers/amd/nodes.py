"""Kernel files in a folder, with a simulated binding of drivers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from allotment.drivers.amd.kernel_files import HostFiles
from allotment.drivers.amd.simulated.pci_functions import SimulatedFunctions
from allotment.drivers.amd.simulated.sysfs_tree import SymbolicLink, sysfs_tree
from allotment.fleet.amd import Function, Gpu


class SimulatedKernelFiles(HostFiles):
    """A folder in which writes have the kernel's effects. ``gpus``: GPUs that are initially bound to AMD's driver."""

    def __init__(self, root: Path, gpus: Sequence[Gpu], functions: Sequence[Function]) -> None:
        super().__init__(root)
        self._root = root
        self._gpus = gpus
        self.functions = SimulatedFunctions(functions)
        self.written: list[str] = []
        #: Part of the paths at which writes fail.
        self.refused = ""
        self.build()

    def build(self) -> None:
        """Write the files again; unrelated files are kept."""
        for path in [*self._root.glob("sys/**/*"), *self._root.glob("dev/**/*")]:
            if path.is_symlink() or path.is_file():
                path.unlink()
        attached = [gpu for gpu in self._gpus if not self.functions.is_detached(gpu.pci)]
        files = sysfs_tree(attached, dies=8) | self.functions.tree(gpu.pci for gpu in self._gpus)
        for name, content in files.items():
            file = self._root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, SymbolicLink):
                file.symlink_to(content.target)
            else:
                file.write_text(content if isinstance(content, str) else "")

    def write(self, path: str, text: str) -> None:
        self.written.append(f"{path.rpartition('/')[2]}={text.strip()}")
        if self.refused and self.refused in path:
            raise OSError(16, os.strerror(16), path)
        super().write(path, text)
        target = (self._root / path).resolve().relative_to(self._root.resolve())
        if self.functions.write(str(target), text):
            self.build()
