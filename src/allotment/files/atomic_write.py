"""Writes files whole: a reader, and a crash, finds the old content or the new one, never a part.

The new content goes to a temporary file in the same folder, which then takes the name. The mode is set before the first
byte is written; the umask does not change it.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from contextlib import contextmanager, suppress
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Readable and writable by the owner alone.
PRIVATE: Final = 0o600
#: Readable by all users, writable by the owner.
PUBLIC: Final = 0o644

#: The ending of temporary files.
TEMPORARY_SUFFIX: Final = ".new"

#: Answers of file systems that cannot sync a folder.
_NO_FOLDER_SYNC: Final = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)


class Sync(Enum):
    """What outlives a crash of the machine. A crash of the process never loses a file that was replaced."""

    #: Nothing is certain.
    NONE = auto()
    #: The file has the old content or the new one, whole.
    CONTENT = auto()
    #: The file has the new content.
    ALL = auto()


class Owner(NamedTuple):
    """A user and a group, by number."""

    user: int
    group: int


def replace(
    path: Path, content: bytes, *, mode: int = PRIVATE, sync: Sync = Sync.ALL, single_writer: bool = False
) -> None:
    """Write a file in place of the one that may exist. Raises OSError, with the file as it was.

    ``single_writer``: nothing else writes this file at the same time. The temporary file then has a fixed name, and
    what a killed process left of it is reused by the next call.
    """
    temporary = write_temporary(path, content, mode=mode, sync=sync, single_writer=single_writer)
    with _removed_on_error(temporary):
        temporary.replace(path)
    if sync is Sync.ALL:
        sync_folder(path.parent)


def create(path: Path, content: bytes, *, mode: int = PRIVATE, sync: Sync = Sync.ALL) -> None:
    """Write a file that does not exist yet. Raises FileExistsError, OSError."""
    temporary = write_temporary(path, content, mode=mode, sync=sync)
    try:
        os.link(temporary, path)  # unlike a rename it never replaces a file
    finally:
        temporary.unlink(missing_ok=True)
    if sync is Sync.ALL:
        sync_folder(path.parent)


def write_temporary(
    path: Path, content: bytes, *, mode: int = PRIVATE, owner: Owner | None = None, sync: Sync = Sync.ALL,
    single_writer: bool = False,
) -> Path:  # fmt: skip
    """Write the content of a file to a temporary one in its folder, for the caller to rename. Raises OSError.

    ``owner``: given to the file where the process is permitted to; otherwise it stays the process's own.
    """
    descriptor, temporary = _opened(path, single_writer)
    with _removed_on_error(temporary), os.fdopen(descriptor, "wb") as file:
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
    """The temporary file of a single writer."""
    return path.with_name(f".{path.name}{TEMPORARY_SUFFIX}")


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system has folders that can be synced."""
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


def _opened(path: Path, single_writer: bool) -> tuple[int, Path]:
    """A new file that no other user can open."""
    if not single_writer:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=TEMPORARY_SUFFIX, dir=path.parent)
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
def _removed_on_error(temporary: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
