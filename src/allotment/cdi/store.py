"""Stores for CDI files: a folder that container runtimes read, or memory for simulated runtimes.

A runtime may read at any time, so files are replaced atomically. They need not survive a power failure: drivers rewrite
them from their checkpoints, and the default folder, ``/var/run/cdi``, is empty after a reboot.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from itertools import count
from pathlib import Path
from typing import Final, Protocol

from allotment.cdi.spec import Spec, decode, encode, validate
from allotment.files import atomic_write
from allotment.files.atomic_write import PUBLIC, Sync, temporary_path

_SUFFIXES: Final = (".json", ".yaml")


class SpecStore(Protocol):
    """The files of one folder, by name. A name without ``.json`` or ``.yaml`` stands for the one with ``.json``."""

    def write(self, name: str, spec: Spec) -> None:
        """Create or replace a file. Raises InvalidSpec, OSError."""
        ...

    def remove(self, name: str) -> None:
        """Delete a file if it exists. Raises OSError."""
        ...

    def names(self) -> frozenset[str]:
        """Return the names of all files, without ``.json``, including those of other programs."""
        ...

    def read(self, name: str) -> Spec | None:
        """Return a file's content, or None if it does not exist. Raises InvalidSpec, OSError."""
        ...

    def stamps(self) -> Mapping[str, Hashable]:
        """Return all names in order, each with a value that changes when the file changes."""
        ...


class FolderStore:
    """A folder of the host. It is created when the first file is written.

    Files are replaced atomically but not synced. After a crash of the machine they are void anyway: runtimes' folder is
    in memory, and drivers rewrite their files from the checkpoint. A crash of the process loses nothing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, spec: Spec) -> None:
        """Write a file that all runtimes can read. The next call reuses a temporary file of a crash."""
        data, path = encode(spec), self._file(name)
        self.path.mkdir(parents=True, exist_ok=True)
        atomic_write.replace(path, data, mode=PUBLIC, sync=Sync.NONE, single_writer=True)

    def remove(self, name: str) -> None:
        """Delete the file, and the temporary file that a crash may have left."""
        path = self._file(name)
        path.unlink(missing_ok=True)
        temporary_path(path).unlink(missing_ok=True)

    def names(self) -> frozenset[str]:
        return frozenset(self.stamps())

    def read(self, name: str) -> Spec | None:
        path = self._file(name)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        return decode(data, str(path))

    def stamps(self) -> Mapping[str, Hashable]:
        """Return the names with modification time, size and inode of their files."""
        stamps: dict[str, Hashable] = {}
        try:
            entries = sorted(os.scandir(self.path), key=lambda entry: entry.name)
        except FileNotFoundError:
            return stamps
        for entry in entries:
            # Runtimes read only files with these suffixes, and not in subfolders.
            if not entry.name.endswith(_SUFFIXES) or not entry.is_file():
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:  # removed after the listing
                continue
            stamps[entry.name.removesuffix(".json")] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return stamps

    def _file(self, name: str) -> Path:
        if not name or "/" in name or name.startswith("."):
            raise ValueError(f"expected a CDI file name without '/' or leading '.', found {name!r}")
        return self.path / (name if name.endswith(_SUFFIXES) else f"{name}.json")


class MemoryStore:
    """Files in memory, for simulated nodes and tests."""

    def __init__(self) -> None:
        self._specs: dict[str, tuple[Spec, int]] = {}
        self._numbers = count()

    def write(self, name: str, spec: Spec) -> None:
        """Store a specification. Raises InvalidSpec."""
        validate(spec)
        self._specs[name.removesuffix(".json")] = (spec, next(self._numbers))

    def remove(self, name: str) -> None:
        self._specs.pop(name.removesuffix(".json"), None)

    def names(self) -> frozenset[str]:
        return frozenset(self._specs)

    def read(self, name: str) -> Spec | None:
        entry = self._specs.get(name.removesuffix(".json"))
        return entry[0] if entry else None

    def stamps(self) -> Mapping[str, Hashable]:
        """Return the names with the sequence numbers of their last writes."""
        return {name: number for name, (_, number) in sorted(self._specs.items())}
