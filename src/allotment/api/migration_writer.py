"""Writes the migrated manifests to a new directory, or in place.

Unchanged files are copied too, so that the directory can be applied as a whole. Files are overwritten only in place;
all files are written, or none.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from allotment.api.manifest_files import ManifestFiles
from allotment.api.objects.file_writer import write_all
from allotment.errors import InputError
from allotment.files import atomic_write
from allotment.tools.migrate.report import CLASSES_FILE, Migration
from allotment.tools.migrate.rollout.file_layout import RUNBOOK, file_paths
from allotment.tools.migrate.rollout.runbook import runbook
from allotment.tools.migrate.simulation.comparison import Comparison

#: The file for a text that is no file, such as standard input.
_UNNAMED: Final = "migrated.yaml"


def write_folder(folder: str, migration: Migration, trial: Comparison | None, files: ManifestFiles) -> tuple[str, ...]:
    """Write all files to a directory, keeping their relative paths, and return the paths.

    The old texts of changed files are written too, and a runbook if a workload requires one.
    """
    new = migration.new_texts
    everything = {**files.sources, **new}
    names = _below(everything, files.unwritable)
    texts = {names[file]: text for file, text in everything.items()}
    if migration.workloads:
        before = {file: files.sources[file] for file in new if file in files.sources}
        places = file_paths({file: names[file] for file in everything}, before)
        texts |= {place: before[file] for file, place in places.old.items()}
        texts[RUNBOOK] = runbook(migration, trial, places)
    written = {str(Path(folder) / name): text for name, text in texts.items()}
    _create(written)
    return tuple(written)


def write_in_place(migration: Migration, files: ManifestFiles) -> tuple[str, ...]:
    """Change the files; new ones are written to the same directory, classes to that of the first file."""
    texts = migration.new_texts
    first = next(iter(files.sources), "")
    placed = {_new_path(first) if file == CLASSES_FILE else file: text for file, text in texts.items()}
    changed = {file: text for file, text in placed.items() if file in files.sources}
    new = {file: text for file, text in placed.items() if file not in files.sources and not _holds(file, text)}
    _create(new)
    try:
        write_all(changed, files.sources)
    except BaseException:
        for file in new:
            Path(file).unlink(missing_ok=True)
        raise
    return tuple(placed)


def _holds(file: str, text: str) -> bool:
    """Return whether a file has the intended text already."""
    path = Path(file)
    return path.is_file() and path.read_bytes() == text.encode()


def _new_path(file: str) -> str:
    return str(Path(file).parent / CLASSES_FILE)


def _below(texts: Mapping[str, str], unwritable: Collection[str]) -> dict[str, str]:
    """Return the path of each file relative to the deepest common directory."""
    given = [file for file in texts if file not in unwritable and file != CLASSES_FILE]
    root = os.path.commonpath([Path(file).absolute().parent for file in given]) if given else ""
    names = {file: os.path.relpath(Path(file).absolute(), root) for file in given}
    for number, text in enumerate((file for file in texts if file in unwritable), 1):
        names[text] = _UNNAMED if number == 1 else f"{number}-{_UNNAMED}"
    names[CLASSES_FILE] = CLASSES_FILE
    return names


def _create(texts: Mapping[str, str]) -> None:
    """Create files atomically; if one cannot be created, the others are removed."""
    there = [file for file in texts if os.path.lexists(file)]
    if there:
        raise InputError(
            f"{there[0]}: already exists", "nothing was written: choose another directory, or remove the file"
        )
    made: list[Path] = []
    try:
        for file, text in texts.items():
            path = Path(file)
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write.create(path, text.encode(), mode=0o666 & ~_umask())
            made.append(path)
    except OSError as error:
        for path in made:
            path.unlink(missing_ok=True)
        words = (error.strerror or str(error)).lower()
        raise InputError(f"{error.filename or ''}: cannot be written: {words}", "nothing was written") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
