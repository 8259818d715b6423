"""Creates files and folders that only their owner can read: they contain keys, tokens and Secrets.

A file is private from its creation: it never has another mode, and the umask does not change it. An existing folder
keeps its mode, so each file in it is private itself.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO, Final

from allotment.files.atomic_write import PRIVATE, sync_folder

_FOLDER: Final = 0o700
#: The permission bits of users other than the owner.
_OTHERS: Final = 0o077


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents durably, accessible by the owner only. Raises OSError.

    An existing folder keeps its mode.
    """
    for folder in reversed([path, *path.parents]):
        if not folder.is_dir():
            _make_one_folder(folder)


def create_file(path: Path) -> None:
    """Create an empty private file, or make an existing file private. Raises OSError.

    An existing file is not opened, because closing it would release the locks of this process on it.
    """
    try:
        os.close(_open(path, os.O_WRONLY | os.O_EXCL))
    except FileExistsError:
        restrict(path)


def open_append(path: Path) -> BinaryIO:
    """Open a file for appending. It is created if missing, and private afterwards. Raises OSError."""
    return os.fdopen(_open(path, os.O_WRONLY | os.O_APPEND), "ab")


def restrict(path: Path) -> None:
    """Make an existing regular file private; do nothing for other paths. Raises OSError."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if sys.platform != "win32" and stat.S_ISREG(mode) and mode & _OTHERS:
        path.chmod(stat.S_IMODE(mode) & ~_OTHERS)


def folder_problem(path: Path) -> str:
    """Return why other users can place files in a folder, or replace its files; empty if only the owner and group can.

    The path may be a symbolic link that this user chose.
    """
    status = path.stat()
    if sys.platform != "win32" and status.st_mode & stat.S_IWOTH:
        return "all users can write to it"
    return _owner_problem(status)


def file_problem(path: Path) -> str:
    """Return why the content of a file cannot be trusted: another user made it, or it is a link; else empty."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return "it is a symbolic link"
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    return _owner_problem(status)


def _make_one_folder(folder: Path) -> None:
    try:
        folder.mkdir(_FOLDER)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return  # another process created it
    folder.chmod(_FOLDER)  # the umask may have removed permissions of the owner
    sync_folder(folder.parent)  # otherwise a power cut may remove the folder, with files in it that were synced


def _owner_problem(status: os.stat_result) -> str:
    if sys.platform == "win32" or status.st_uid == os.geteuid():
        return ""
    return f"it belongs to the user with ID {status.st_uid}"


def _open(path: Path, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), PRIVATE)
    try:
        if sys.platform != "win32" and stat.S_IMODE(os.fstat(descriptor).st_mode) != PRIVATE:
            os.fchmod(descriptor, PRIVATE)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
