"""Kernel files of a folder in which bindings happen, as in a kernel."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from allotment.drivers.amd.kernel_files import HostFiles
from allotment.drivers.amd.simulated.pci_functions import SimulatedFunctions
from allotment.drivers.amd.simulated.sysfs_tree import SymbolicLink, sysfs_tree
from allotment.fleet.amd import Function, Gpu


class Bindable(HostFiles):
    """A folder below which the kernel acts on what is written. ``gpus``: those that AMD's driver has at first."""

    def __init__(self, root: Path, gpus: Sequence[Gpu], functions: Sequence[Function]) -> None:
        super().__init__(root)
        self._root = root
        self._gpus = gpus
        self.functions = SimulatedFunctions(functions)
        self.written: list[str] = []
        #: What the kernel refuses to write.
        self.refused = ""
        self.build()

    def build(self) -> None:
        """Make the files anew; what others have put there stays."""
        for path in [*self._root.glob("sys/**/*"), *self._root.glob("dev/**/*")]:
            if path.is_symlink() or path.is_file():
                path.unlink()
        ours = [gpu for gpu in self._gpus if not self.functions.is_detached(gpu.pci)]
        files = sysfs_tree(ours, dies=8) | self.functions.tree(gpu.pci for gpu in self._gpus)
        for name, content in files.items():
            at = self._root / name
            at.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, SymbolicLink):
                at.symlink_to(content.target)
            else:
                at.write_text(content if isinstance(content, str) else "")

    def write(self, path: str, text: str) -> None:
        self.written.append(f"{path.rpartition('/')[2]}={text.strip()}")
        if self.refused and self.refused in path:
            raise OSError(16, os.strerror(16), path)
        super().write(path, text)
        real = (self._root / path).resolve().relative_to(self._root.resolve())
        if self.functions.write(str(real), text):
            self.build()
