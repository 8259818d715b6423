"""The kernel's files: those of a host, those below a folder that has copies of them, or a simulation.

Paths have no slash in front (``sys/class/kfd``), so that a root can be set before them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol


class KernelFiles(Protocol):
    """What the driver needs of a file system. What is not there is None or empty: hardware comes and goes."""

    def read(self, path: str) -> str | None:
        """The text of a file, without white space around it; None if there is none that can be read."""
        ...

    def listdir(self, path: str) -> tuple[str, ...]:
        """What is in a folder, in order."""
        ...

    def readlink(self, path: str) -> str | None:
        """What a symbolic link says."""
        ...

    def group_id(self, path: str) -> int | None:
        """The group that a file belongs to."""
        ...

    def write(self, path: str, text: str) -> None:
        """Write to a file that is there. Raises OSError."""
        ...


class HostFiles:
    """Files below ``root``; with ``/`` those of the host."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def read(self, path: str) -> str | None:
        """The text of a file."""
        try:
            return (self._root / path).read_text(errors="replace").strip()
        except OSError:
            return None

    def listdir(self, path: str) -> tuple[str, ...]:
        """What is in a folder."""
        try:
            return tuple(sorted(entry.name for entry in (self._root / path).iterdir()))
        except OSError:
            return ()

    def readlink(self, path: str) -> str | None:
        """What a symbolic link says."""
        try:
            return str((self._root / path).readlink())
        except OSError:
            return None

    def group_id(self, path: str) -> int | None:
        """The group of a file."""
        try:
            return (self._root / path).stat().st_gid
        except OSError:
            return None

    def write(self, path: str, text: str) -> None:
        """Write to a file."""
        # Never made anew: a file that the kernel does not have is an error.
        with os.fdopen(os.open(self._root / path, os.O_WRONLY | os.O_TRUNC), "w") as file:
            file.write(text)
