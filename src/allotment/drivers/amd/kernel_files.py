"""Access to the kernel's files: those of a host, copies below a folder, or a simulation.

Paths have no leading slash (``sys/class/kfd``), so that they can be joined to a root.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol


class KernelFiles(Protocol):
    """The file operations that the driver needs. A missing file gives None or nothing, because hardware can be
    removed.
    """

    def read(self, path: str) -> str | None:
        """The text of a file without surrounding white space; None if it cannot be read."""
        ...

    def listdir(self, path: str) -> tuple[str, ...]:
        """The sorted names in a folder."""
        ...

    def readlink(self, path: str) -> str | None:
        """The target of a symbolic link."""
        ...

    def group_id(self, path: str) -> int | None:
        """The id of the group that owns a file."""
        ...

    def write(self, path: str, text: str) -> None:
        """Write to an existing file. Raises OSError."""
        ...


class HostFiles:
    """Files below ``root``; with ``/`` those of the host."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def read(self, path: str) -> str | None:
        try:
            return (self._root / path).read_text(errors="replace").strip()
        except OSError:
            return None

    def listdir(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(entry.name for entry in (self._root / path).iterdir()))
        except OSError:
            return ()

    def readlink(self, path: str) -> str | None:
        try:
            return str((self._root / path).readlink())
        except OSError:
            return None

    def group_id(self, path: str) -> int | None:
        try:
            return (self._root / path).stat().st_gid
        except OSError:
            return None

    def write(self, path: str, text: str) -> None:
        # Never created: a file that the kernel does not have is an error.
        with os.fdopen(os.open(self._root / path, os.O_WRONLY | os.O_TRUNC), "w") as file:
            file.write(text)
