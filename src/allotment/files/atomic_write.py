"""Writes files atomically: after a crash, and for every reader, a file has either the old content or the new one.

The new content is written to a temporary file in the same folder, which is then renamed. The mode is set before the
first byte is written; the umask does not change it.
"""

from __future__ import annotations

import errno
import glob
import os
import sys
import tempfile
from contextlib import contextmanager, suppress
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Readable and writable by the owner only.
PRIVATE: Final = 0o600
#: Readable by all users, writable by the owner.
PUBLIC: Final = 0o644

#: The suffix of temporary files.
TEMPORARY_SUFFIX: Final = ".new"

#: Errors of file systems that cannot sync a folder.
_NO_FOLDER_SYNC: Final = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)


class Sync(Enum):
    """The durability after a crash of the machine. After a crash of the process, a replaced file is always complete."""

    #: No guarantee.
    NONE = auto()
    #: The file has either the old or the new content, complete.
    CONTENT = auto()
    #: The file has the new content.
    ALL = auto()


class Owner(NamedTuple):
    """A user ID and a group ID."""

    user: int
    group: int


def replace(
    path: Path, content: bytes, *, mode: int = PRIVATE, sync: Sync = Sync.ALL, single_writer: bool = False
) -> None:
    """Write a file, replacing an existing one. Raises OSError; the old file is then unchanged.

    ``single_writer``: no other process writes this file at the same time. The temporary file then has a fixed name,
    and the next call replaces the one of a killed process.
    """
    temporary = write_temporary(path, content, mode=mode, sync=sync, single_writer=single_writer)
    with _remove_on_error(temporary):
        temporary.replace(path)
    if sync is Sync.ALL:
        sync_folder(path.parent)


def create(path: Path, content: bytes, *, mode: int = PRIVATE, sync: Sync = Sync.ALL) -> None:
    """Write a new file. Raises FileExistsError if it exists, and OSError."""
    temporary = write_temporary(path, content, mode=mode, sync=sync)
    try:
        os.link(temporary, path)  # unlike a rename, it never replaces a file
    finally:
        temporary.unlink(missing_ok=True)
    if sync is Sync.ALL:
        sync_folder(path.parent)


def write_temporary(
    path: Path, content: bytes, *, mode: int = PRIVATE, owner: Owner | None = None, sync: Sync = Sync.ALL,
    single_writer: bool = False,
) -> Path:  # fmt: skip
    """Write content to a temporary file in the folder of ``path``, for the caller to rename. Raises OSError.

    ``owner``: the owner to set, if the process is permitted to; otherwise the file keeps the process's owner.
    """
    descriptor, temporary = _create_temporary(path, single_writer)
    with _remove_on_error(temporary), os.fdopen(descriptor, "wb") as file:
        _set_mode(file.fileno(), temporary, mode)
        if owner is not None:
            with suppress(PermissionError):
                os.fchown(file.fileno(), owner.user, owner.group)
        file.write(content)
        file.flush()
        if sync is not Sync.NONE:
            os.fsync(file.fileno())
    return temporary


def temporary_path(path: Path) -> Path:
    """The path of the temporary file of a single writer."""
    return path.with_name(f".{path.name}{TEMPORARY_SUFFIX}")


def remove_abandoned(path: Path, suffixes: Sequence[str] = (TEMPORARY_SUFFIX,)) -> None:
    """Remove the temporary files of a file, with these suffixes, that killed processes left behind. Raises OSError."""
    prefix = _prefix(path)
    for temporary in path.parent.glob(f"{glob.escape(prefix)}*"):
        pid = temporary.name.removeprefix(prefix).partition(".")[0]
        if temporary.suffix in suffixes and pid.isdecimal() and not _runs(int(pid)):
            temporary.unlink(missing_ok=True)


def _prefix(path: Path) -> str:
    return f".{path.name}."


def _runs(pid: int) -> bool:
    if sys.platform == "win32":  # there, a signal would end the process
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # a process of another user
        return True
    return True


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to disk, if the system supports it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


def _create_temporary(path: Path, single_writer: bool) -> tuple[int, Path]:
    """Create a temporary file that no other user can open."""
    if not single_writer:
        prefix = f"{_prefix(path)}{os.getpid()}."
        descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=TEMPORARY_SUFFIX, dir=path.parent)
        return descriptor, Path(name)
    temporary = temporary_path(path)
    temporary.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.open(temporary, flags, PRIVATE), temporary


def _set_mode(descriptor: int, path: Path, mode: int) -> None:
    if sys.platform == "win32":
        path.chmod(mode)
    else:
        os.fchmod(descriptor, mode)


@contextmanager
def _remove_on_error(temporary: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
