"""Writes changed files: each is wholly the old or the new one at any moment, and all of them change, or none.

A new text is made whole beside its file, kept on the disk, and put in its place by renaming. Before the first is put in
place all are made; when one cannot be put in place, those that were are put back. What a file is otherwise (its mode,
its owner where we may, the file that a link leads to) stays. A file that changed since it was read is left alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from allotment.cli.output.errors import Mistake
from allotment.files.atomic_write import Owner, sync_folder, write_temporary


class _Prepared(NamedTuple):
    """A file with its next text beside it, and its old one under another name once it is to be replaced."""

    target: Path
    new: Path
    old: Path


def write_all(texts: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Give files their new texts; ``before`` are the texts that these were made of.

    Raises Mistake, with every file as it was, when one of them cannot be written or is no longer what it was.
    """
    prepared: list[_Prepared] = []
    try:
        for file, text in texts.items():
            with _told(file):
                prepared.append(_prepare(Path(file), text, before[file]))
        _replace(prepared)
    finally:
        for one in prepared:
            for leftover in (one.new, one.old):
                leftover.unlink(missing_ok=True)


def _prepare(file: Path, text: str, before: str) -> _Prepared:
    target = file.resolve(strict=True)
    if target.read_bytes().decode("utf-8", "replace") != before:
        raise Mistake(f"{file}: the file changed during the check", "nothing was written: run the command again")
    known = target.stat()
    if not os.access(target, os.W_OK):  # renaming would not ask
        raise PermissionError(0, "permission denied", str(file))
    owner = Owner(known.st_uid, known.st_gid)
    new = write_temporary(target, text.encode(), mode=stat.S_IMODE(known.st_mode), owner=owner)
    return _Prepared(target, new, new.with_suffix(".old"))


def _replace(prepared: list[_Prepared]) -> None:
    done: list[_Prepared] = []
    try:
        for one in prepared:
            with _told(str(one.target)):
                _keep(one.target, one.old)
                done.append(one)
                one.new.replace(one.target)
    except BaseException:
        for one in reversed(done):
            one.old.replace(one.target)
        raise
    for folder in {one.target.parent for one in prepared}:
        sync_folder(folder)


def _keep(target: Path, old: Path) -> None:
    """The file under a second name, so that it can be put back as it was."""
    try:
        os.link(target, old)
    except OSError:  # not every file system has links
        shutil.copy2(target, old)


@contextlib.contextmanager
def _told(file: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        words = (error.strerror or str(error)).lower()
        raise Mistake(f"{file}: cannot be written: {words}", "no file was changed") from None
