"""Backups of a lab that is not running: one file with its objects, keys, certificates and fleet.

The file is a tar archive that only its owner can read, because it contains Secrets and private keys. Log and volumes
are not included. A restored lab starts with a revision that is higher than any that clients of the original can know.
"""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from allotment.apiserver.storage.database_file import UnsupportedDatabase
from allotment.apiserver.storage.salvage import Salvaged, read_damaged, write_new
from allotment.errors import InputError
from allotment.files import atomic_write, private
from allotment.lab.data_check import REVISION_STEP, read_stopped
from allotment.lab.state import DataFolder

#: The largest file of a backup that is restored.
_MAX_BYTES: Final = 4 << 30
_DATABASE: Final = "lab.db"
_CERTIFICATES: Final = "pki"
_FLEET: Final = "fleet.json"


class Contents(NamedTuple):
    """The number of objects in a backup, and their revision."""

    objects: int
    revision: int


def create(folder: DataFolder, target: Path) -> Contents:
    """Write a backup to a new file. Raises InputError if the lab is running or damaged, or the file exists; OSError."""
    if target.exists():
        raise InputError(f"{target} exists", "choose another name")
    try:
        found = read_stopped(folder)
    except UnsupportedDatabase as error:
        raise InputError(str(error)) from None
    if found.problems:
        raise InputError(
            f"{folder.database} is damaged: {found.problems[0]}", "repair it first: allot lab check --repair"
        )
    with tempfile.TemporaryDirectory(prefix="allotment-backup-") as temporary:
        copy = Path(temporary) / _DATABASE
        write_new(copy, found.objects, found.revision)
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
            for name, path in (*_files(folder).items(), (_DATABASE, copy)):
                archive.add(path, name, recursive=False, filter=_anonymous)
    atomic_write.create(target, content.getvalue())
    return Contents(len(found.objects), found.revision)


def restore(source: Path, folder: DataFolder) -> Contents:
    """Restore a backup to a folder that is missing or empty. Raises InputError, OSError; then nothing was restored."""
    target = folder.path
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target} exists and is not empty", "remove it, or choose another with --name or --data-dir")
    private.make_folder(target.parent)
    partial = DataFolder(target.with_name(f".{target.name}.restored-{os.getpid()}"))
    try:
        private.make_folder(partial.certificates)
        _extract(source, partial.path)
        found = _restored_database(source, partial.database)
        partial.path.replace(target)
        atomic_write.sync_folder(target.parent)
    finally:
        shutil.rmtree(partial.path, ignore_errors=True)
    return Contents(len(found.objects), found.revision)


def _files(folder: DataFolder) -> Mapping[str, Path]:
    """The files of a backup besides the database, by their names in it."""
    files = {path.relative_to(folder.path).as_posix(): path for path in folder.certificate_files()}
    fleet = folder.path / _FLEET
    return {**files, **({_FLEET: fleet} if fleet.exists() else {})}


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out the user, and other times and modes than those of a new file."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = atomic_write.PRIVATE
    return member


def _extract(source: Path, target: Path) -> None:
    """Extract the known files of a backup; a member with another name, a link or the like is an error."""
    try:
        with tarfile.open(source, "r:gz") as archive:
            for member in archive:
                if not _is_known(member.name) or not member.isreg() or member.size > _MAX_BYTES:
                    raise InputError(f"{source} is not a backup of a lab: it contains {member.name!r}")
                content = archive.extractfile(member)
                assert content is not None  # it is a regular file
                private.make_folder((target / member.name).parent)
                atomic_write.create(target / member.name, content.read())
    except (tarfile.TarError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise InputError(f"{source} is not a backup of a lab, or it is damaged: {error}") from None


def _is_known(name: str) -> bool:
    """Whether a backup can contain a file of this name."""
    folder, *rest = name.split("/")
    in_certificates = folder == _CERTIFICATES and bool(rest) and not {"", ".", ".."} & set(rest)
    return name in (_DATABASE, _FLEET) or in_certificates


def _restored_database(source: Path, path: Path) -> Salvaged:
    """Replace the database of a backup by one with a later revision."""
    try:
        found = read_damaged(path)
    except (FileNotFoundError, UnsupportedDatabase):
        raise InputError(f"{source} is not a backup of a lab: it has no database") from None
    if found.problems:
        raise InputError(f"{source} is damaged: {found.problems[0]}")
    path.unlink()
    write_new(path, found.objects, found.revision + REVISION_STEP)
    return found
