"""Where CDI files are kept: a folder that container runtimes read, or memory where kubelet and runtime are ours.

A runtime may read at any moment, so a file appears whole or not at all. It need not outlive a power cut: whoever writes
one can make it again (a driver from its checkpoint), and the usual folder, ``/var/run/cdi``, does not outlive a boot.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from itertools import count
from pathlib import Path
from typing import Final, Protocol

from allotment.cdi.spec import Spec, decode, encode, validate
from allotment.files import writing
from allotment.files.writing import PUBLIC, Sync, temporary_of

_SUFFIXES: Final = (".json", ".yaml")


class SpecStore(Protocol):
    """Files of one folder, by name. A name without ``.json`` or ``.yaml`` means the one with ``.json``."""

    def write(self, name: str, spec: Spec) -> None:
        """Put a file there, in place of the one that may be there. Raises InvalidSpec, OSError."""
        ...

    def remove(self, name: str) -> None:
        """Take a file away; none is no error. Raises OSError."""
        ...

    def names(self) -> frozenset[str]:
        """Every file's name, whoever wrote it; without ``.json``."""
        ...

    def read(self, name: str) -> Spec | None:
        """A file's content; None where there is none. Raises InvalidSpec, OSError."""
        ...

    def stamps(self) -> Mapping[str, Hashable]:
        """Every name, in order, with a value that is another one after each change of its file."""
        ...


class FolderStore:
    """A folder of the host. It is made when the first file is written.

    Files are replaced whole, but not synced: what a crash of the machine would undo is void after it anyway (runtimes'
    folder is in memory, and drivers write anew what their checkpoint tells), and a crash of the process undoes nothing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, spec: Spec) -> None:
        """Write a file that all runtimes can read. What a crash leaves of it is reused by the next call."""
        data, path = encode(spec), self._file(name)
        self.path.mkdir(parents=True, exist_ok=True)
        writing.replace(path, data, mode=PUBLIC, sync=Sync.NONE, single_writer=True)

    def remove(self, name: str) -> None:
        """Remove the file, and what a crash in the middle of writing it may have left."""
        path = self._file(name)
        path.unlink(missing_ok=True)
        temporary_of(path).unlink(missing_ok=True)

    def names(self) -> frozenset[str]:
        """Every file's name; without ``.json``."""
        return frozenset(self.stamps())

    def read(self, name: str) -> Spec | None:
        """A file's content; None where there is none."""
        path = self._file(name)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        return decode(data, str(path))

    def stamps(self) -> Mapping[str, Hashable]:
        """Names with time, size and identity of their files."""
        found: dict[str, Hashable] = {}
        try:
            entries = sorted(os.scandir(self.path), key=lambda entry: entry.name)
        except FileNotFoundError:
            return found
        for entry in entries:
            # Runtimes look at a folder's own files only, at these two endings only.
            if not entry.name.endswith(_SUFFIXES) or not entry.is_file():
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:  # removed meanwhile
                continue
            found[entry.name.removesuffix(".json")] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return found

    def _file(self, name: str) -> Path:
        if not name or "/" in name or name.startswith("."):
            raise ValueError(f"a CDI file's name: wanted one without '/' that starts with no '.', found {name!r}")
        return self.path / (name if name.endswith(_SUFFIXES) else f"{name}.json")


class MemoryStore:
    """Files that only this process reads: of simulated nodes, and in tests."""

    def __init__(self) -> None:
        self._specs: dict[str, tuple[Spec, int]] = {}
        self._numbers = count()

    def write(self, name: str, spec: Spec) -> None:
        """Keep a spec that a runtime would accept."""
        validate(spec)
        self._specs[name.removesuffix(".json")] = (spec, next(self._numbers))

    def remove(self, name: str) -> None:
        """Forget it."""
        self._specs.pop(name.removesuffix(".json"), None)

    def names(self) -> frozenset[str]:
        """Every name; without ``.json``."""
        return frozenset(self._specs)

    def read(self, name: str) -> Spec | None:
        """What was written under a name; None for nothing."""
        kept = self._specs.get(name.removesuffix(".json"))
        return kept[0] if kept else None

    def stamps(self) -> Mapping[str, Hashable]:
        """Names with the numbers of their writing."""
        return {name: kept[1] for name, kept in sorted(self._specs.items())}
