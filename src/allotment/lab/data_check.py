"""Checks the data folder of a lab that is not running, and repairs its database.

A repair keeps the objects as of the last revision up to which the database is complete. They are written to a new
database, which replaces the damaged one; the damaged files are kept. The next revision is higher than any that clients
can know, so that they list again instead of trusting what was lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from allotment.apiserver.storage.database_file import DatabaseInUse, UnsupportedDatabase
from allotment.apiserver.storage.salvage import Salvaged, read_damaged, write_new
from allotment.errors import InputError
from allotment.extras import require
from allotment.files import atomic_write, private
from allotment.files.atomic_write import sync_folder
from allotment.lab.secret_files import DamagedFile, accounts_key
from allotment.lab.state import DataFolder

#: Added to the newest revision, for writes that left no trace.
REVISION_STEP: Final = 1_000_000


class DataReport(NamedTuple):
    """The state of a data folder. ``database``: its readable part; None if there is none. ``problems``: each with the
    file and, where one is known, what to do."""

    folder: DataFolder
    database: Salvaged | None
    problems: tuple[str, ...]


class Repaired(NamedTuple):
    """``lost_revisions``: the number of later writes that are lost. ``kept``: the damaged database."""

    objects: int
    revision: int
    lost_revisions: int
    kept: Path


def check_data(folder: DataFolder, now: datetime) -> DataReport:
    """Read all files of a lab. Raises InputError if there is no lab, or if it is running."""
    if not folder.database.exists() and not folder.certificates.exists():
        raise InputError(f"{folder.path}: expected the data of a lab, found none", "state it with --name or --data-dir")
    database: Salvaged | None = None
    problems = list(folder.unsafe())
    try:
        database = read_stopped(folder)
        problems += [f"{folder.database}: {problem}" for problem in database.problems]
    except UnsupportedDatabase as error:
        problems.append(f"{error}; or restore it from a backup")
    return DataReport(folder, database, (*problems, *_other_problems(folder, now)))


def read_stopped(folder: DataFolder) -> Salvaged:
    """Read the database of a lab that is not running. Raises InputError if it is running, UnsupportedDatabase."""
    try:
        if folder.database.stat().st_size or _wal(folder.database).exists():
            return read_damaged(folder.database)
    except FileNotFoundError:
        raise UnsupportedDatabase(f"{folder.database} is missing") from None
    except DatabaseInUse as error:
        raise InputError(str(error), "stop the lab with allot down") from None
    repaired = _repaired(folder.database)
    found = f"; an earlier repair was interrupted: rename {repaired} to it" if repaired.exists() else ""
    raise UnsupportedDatabase(f"{folder.database} is empty{found}")


def repair(report: DataReport, now: datetime) -> Repaired:
    """Replace a damaged database by its readable part. Raises InputError if nothing is readable."""
    folder, found = report.folder, report.database
    if found is None:
        raise InputError(f"{folder.database} cannot be repaired: nothing in it is readable", "restore it from a backup")
    path = folder.database
    new = _repaired(path)
    kept = path.with_name(f"{path.name}.damaged-{now:%Y%m%dT%H%M%S}")
    for leftover in (new, _wal(new)):
        leftover.unlink(missing_ok=True)
    write_new(new, found.objects, found.newest + REVISION_STEP)
    os.link(path, kept)
    # A lab does not start with an empty database. Between the next steps, it would read one without its last writes.
    atomic_write.replace(path, b"")
    if _wal(path).exists():
        _wal(path).replace(_wal(kept))
    new.replace(path)
    sync_folder(path.parent)
    private.restrict(path)
    return Repaired(len(found.objects), found.revision, found.newest - found.revision, kept)


def _repaired(path: Path) -> Path:
    return path.with_name(f"{path.name}.repaired")


def _wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _other_problems(folder: DataFolder, now: datetime) -> Iterator[str]:
    """Problems with keys, certificates and the fleet; nothing is created."""
    key = folder.certificates / "accounts.key"
    try:
        if key.exists():
            accounts_key(key)
    except DamagedFile as error:
        yield f"{error.problem}: {error.advice}"
    if (folder.certificates / "ca.crt").exists():
        require("checking certificates", "lab")
        from allotment.lab import certificates

        try:
            certificates.check(folder.certificates, now)
        except DamagedFile as error:
            yield f"{error.problem}: {error.advice}"
    fleet = folder.path / "fleet.json"
    try:
        if fleet.exists():
            msgspec.json.decode(fleet.read_bytes(), type=tuple[str, ...])
    except msgspec.DecodeError as error:
        yield f"{fleet}: expected the list of nodes, found {error}: state the nodes with --fleet at the next start"
