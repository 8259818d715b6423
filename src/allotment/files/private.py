"""Files and folders that no other user may read: they hold keys, tokens and Secrets.

A file is private from its creation: it never has another mode, and the umask does not change it. A folder that exists
already belongs to the user and keeps its mode, so each file in it is private by itself.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO, Final

from allotment.files.atomic_write import PRIVATE

_FOLDER: Final = 0o700
#: What users other than the owner are allowed to do with a file.
_OTHERS: Final = 0o077


def make_folder(path: Path) -> None:
    """Make a folder, and those above it that do not exist, for the owner alone. Raises OSError.

    A folder that exists keeps its mode.
    """
    for folder in reversed([path, *path.parents]):
        if not folder.is_dir():
            _make(folder)


def create_file(path: Path) -> None:
    """Make an empty file, or make the one that exists private. Raises OSError.

    A file that exists is not opened: closing it would release the locks that this process has on it.
    """
    try:
        os.close(_opened(path, os.O_WRONLY | os.O_EXCL))
    except FileExistsError:
        restrict(path)


def open_append(path: Path) -> BinaryIO:
    """Open a file to add to it; it is made if it does not exist, and private afterwards. Raises OSError."""
    return os.fdopen(_opened(path, os.O_WRONLY | os.O_APPEND), "ab")


def restrict(path: Path) -> None:
    """Make a file that exists private; a missing one, and what is no file, is left alone. Raises OSError."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if sys.platform != "win32" and stat.S_ISREG(mode) and mode & _OTHERS:
        path.chmod(stat.S_IMODE(mode) & ~_OTHERS)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(_FOLDER)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return  # another process made it since
    folder.chmod(_FOLDER)  # the umask may have removed permissions of the owner


def _opened(path: Path, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), PRIVATE)
    try:
        if sys.platform != "win32" and stat.S_IMODE(os.fstat(descriptor).st_mode) != PRIVATE:
            os.fchmod(descriptor, PRIVATE)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
