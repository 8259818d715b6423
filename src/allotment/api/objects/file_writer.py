"""Writes changed files atomically: each is complete at any time, and either all of them change or none.

A new text is written and synced next to its file, which it then replaces by renaming. All new files are written before
the first is renamed; if a rename fails, the earlier ones are undone. Mode, owner (if permitted) and symbolic links are
kept. A file that changed since it was read is not overwritten. A killed process leaves temporary files, which the next
call for the same files removes.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from allotment.errors import InputError
from allotment.files.atomic_write import TEMPORARY_SUFFIX, Owner, remove_abandoned, sync_folder, write_temporary

_BACKUP_SUFFIX: Final = ".old"


class _Prepared(NamedTuple):
    """A file with its new text in a temporary file, and later its old text in a backup."""

    target: Path
    new: Path
    old: Path


def write_all(texts: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Replace the texts of files; ``before``: the texts that the changes are based on, and of files that stay the same.

    Raises InputError, with all files unchanged, if one cannot be written or differs from ``before``.
    """
    prepared: list[_Prepared] = []
    for file in before:
        with contextlib.suppress(OSError):  # a folder that cannot be read is not written either
            remove_abandoned(Path(file).resolve(), (TEMPORARY_SUFFIX, _BACKUP_SUFFIX))
    try:
        for file, text in texts.items():
            with _write_errors(file):
                prepared.append(_prepare(Path(file), text, before[file]))
        _replace(prepared)
    finally:
        for entry in prepared:
            for leftover in (entry.new, entry.old):
                leftover.unlink(missing_ok=True)


def _prepare(file: Path, text: str, before: str) -> _Prepared:
    target = file.resolve(strict=True)
    if target.read_bytes().decode("utf-8", "replace") != before:
        raise InputError(f"{file}: the file changed during the check", "nothing was written: run the command again")
    known = target.stat()
    if not os.access(target, os.W_OK):  # rename does not check the file's mode
        raise PermissionError(0, "permission denied", str(file))
    owner = Owner(known.st_uid, known.st_gid)
    new = write_temporary(target, text.encode(), mode=stat.S_IMODE(known.st_mode), owner=owner)
    return _Prepared(target, new, new.with_suffix(_BACKUP_SUFFIX))


def _replace(prepared: list[_Prepared]) -> None:
    done: list[_Prepared] = []
    try:
        for file in prepared:
            with _write_errors(str(file.target)):
                _keep(file.target, file.old)
                done.append(file)
                file.new.replace(file.target)
    except BaseException:
        for file in reversed(done):
            file.old.replace(file.target)
        raise
    for folder in {file.target.parent for file in prepared}:
        sync_folder(folder)


def _keep(target: Path, old: Path) -> None:
    """Link or copy the file to a backup, so that it can be restored."""
    try:
        os.link(target, old)
    except OSError:  # not every file system supports links
        known = target.stat()
        old.write_bytes(target.read_bytes())
        old.chmod(stat.S_IMODE(known.st_mode))
        os.utime(old, ns=(known.st_atime_ns, known.st_mtime_ns))


@contextlib.contextmanager
def _write_errors(file: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        words = (error.strerror or str(error)).lower()
        raise InputError(f"{file}: cannot be written: {words}", "no file was changed") from None
