"""Writes the new manifests: to a folder where none of them may be yet, or into the files themselves.

Files that do not change go to the folder too, so that it can be applied as a whole. Nothing is overwritten unless
``--in-place`` says so; all files are written, or none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from allotment.cli.check.file_writer import write_all
from allotment.cli.check.files import Files
from allotment.cli.output.errors import Mistake
from allotment.files import atomic_write
from allotment.tools.migrate.report import CLASSES_FILE, Migration
from allotment.tools.migrate.rollout.file_layout import RUNBOOK, places_of
from allotment.tools.migrate.rollout.runbook import runbook
from allotment.tools.migrate.simulation.comparison import Comparison

_STDIN_NAME = "migrated.yaml"


def write_folder(folder: str, migration: Migration, trial: Comparison | None, files: Files) -> tuple[str, ...]:
    """Write every file to a folder, below it as they lie to each other; the paths written.

    Beside them: the texts before of those that change, and a runbook, if any workload requires one.
    """
    new = migration.new_texts
    everything = {**files.sources, **new}
    names = _below(everything, files.stdin)
    texts = {names[file]: text for file, text in everything.items()}
    if migration.workloads:
        before = {file: files.sources[file] for file in new if file in files.sources}
        places = places_of({file: names[file] for file in everything}, before)
        texts |= {place: before[file] for file, place in places.old.items()}
        texts[RUNBOOK] = runbook(migration, trial, places)
    written = {str(Path(folder) / name): text for name, text in texts.items()}
    _create(written)
    return tuple(written)


def write_in_place(migration: Migration, files: Files) -> tuple[str, ...]:
    """Change the files; new ones are made beside them, and classes beside the first of all."""
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
    """Whether a file is what it would be made, as after the same migration once before."""
    path = Path(file)
    return path.is_file() and path.read_bytes() == text.encode()


def _new_path(file: str) -> str:
    return str(Path(file).parent / CLASSES_FILE)


def _below(texts: Mapping[str, str], stdin: str) -> dict[str, str]:
    """Where each file goes below the folder: as from the deepest folder that all of them are in."""
    given = [file for file in texts if file not in (stdin, CLASSES_FILE)]
    root = os.path.commonpath([Path(file).absolute().parent for file in given]) if given else ""
    names = {file: os.path.relpath(Path(file).absolute(), root) for file in given}
    if stdin:
        names[stdin] = _STDIN_NAME
    names[CLASSES_FILE] = CLASSES_FILE
    return names


def _create(texts: Mapping[str, str]) -> None:
    """Make files that are not there yet: each appears whole, and when one cannot be made, none stays."""
    there = [file for file in texts if os.path.lexists(file)]
    if there:
        raise Mistake(f"{there[0]}: already exists", "nothing was written: choose another directory, or remove it")
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
        raise Mistake(f"{error.filename or ''}: cannot be written: {words}", "nothing was written") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
