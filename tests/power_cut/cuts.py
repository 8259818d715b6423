"""Cuts the power after each recorded operation, and checks the states that the disk may then have."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from tests.power_cut.disk import Disk, Files, write_files
from tests.power_cut.recording import Operation, record
from tests.power_cut.subjects.checkpoints import CheckpointsSubject
from tests.power_cut.subjects.files import FilesSubject
from tests.power_cut.subjects.lab import LabSubject
from tests.power_cut.subjects.store import StoreSubject
from tests.power_cut.subjects.subject import Subject

#: By the name of its module: the subject, and its share of the crash points.
SUBJECTS: Final[Mapping[str, tuple[Callable[[], Subject], float]]] = {
    "store": (StoreSubject, 0.79),
    "checkpoints": (CheckpointsSubject, 0.1),
    "files": (FilesSubject, 0.1),
    "lab": (LabSubject, 0.02),
}


#: How many states are derived for one that was not checked before.
_ATTEMPTS: Final = 2.5


class Cut(NamedTuple):
    """A state that the subject cannot continue from."""

    operation: int
    problem: str
    files: Files


class Outcome(NamedTuple):
    """``points``: the number of different states that were checked."""

    operations: int
    points: int
    cuts: tuple[Cut, ...]


def recorded(library: Path, name: str, folder: Path, fault: str = "") -> list[Operation]:
    """Run the program of a subject in a new folder."""
    watched = folder / f"{name}-original"
    watched.mkdir()
    return record(library, f"tests.power_cut.subjects.{name}", watched.resolve(), folder / f"{name}.log", fault)


def cut(
    name: str, operations: Sequence[Operation], folder: Path, *, points: int, seed: int, stop_after: int = 3
) -> Outcome:
    """Check about ``points`` states, distributed over all operations; ``folder``: the same as of the recording."""
    random = Random(seed)
    subject = SUBJECTS[name][0]()
    original = (folder / f"{name}-original").resolve()
    disk = Disk(original)
    moments = sum(operation.type not in "OBP" for operation in operations)
    per_moment = points / max(1, moments)
    checked: set[bytes] = set()
    failed: list[Cut] = []
    due = 0.0
    printed = 0
    for number, operation in enumerate(operations):
        if operation.type == "P":
            for line in operation.data.decode().splitlines():
                subject.printed(line)
                printed += 1
            continue
        if not disk.apply(operation):
            continue
        due += per_moment
        for files in disk.states(random, round(_ATTEMPTS * due)):
            key = _digest(files, printed)
            if key in checked:
                continue
            checked.add(key)
            due -= 1
            problem = _problem(subject, files, original, folder / f"{name}-cut")
            if problem:
                failed.append(Cut(number, problem, files))
                if len(failed) == stop_after:
                    return Outcome(len(operations), len(checked), tuple(failed))
            if due < 1:
                break
    return Outcome(len(operations), len(checked), tuple(failed))


def _problem(subject: Subject, files: Files, original: Path, target: Path) -> str:
    write_files(files, original, target)
    try:
        return subject.problem(target)
    finally:
        shutil.rmtree(target)


def _digest(files: Files, printed: int) -> bytes:
    digest = hashlib.blake2b(str(printed).encode(), digest_size=16)
    for path, content in files.items():
        digest.update(f"{path}\0{-1 if content is None else len(content)}\0".encode())
        digest.update(content or b"")
    return digest.digest()
