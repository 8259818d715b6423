from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from allotment.files import private

MASKS = pytest.mark.parametrize("mask", [0o000, 0o022, 0o277])


@contextmanager
def masked(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@MASKS
def test_new_folders_are_private_with_any_umask(tmp_path: Path, mask: int) -> None:
    with masked(mask):
        private.make_folder(tmp_path / "a" / "b")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o700, 0o700)


def test_existing_folder_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o755)
    private.make_folder(tmp_path / "a" / "b")
    private.make_folder(tmp_path / "a")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o755, 0o700)


def test_file_instead_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(FileExistsError):
        private.make_folder(tmp_path / "a")


@MASKS
def test_new_files_are_private_with_any_umask(tmp_path: Path, mask: int) -> None:
    with masked(mask):
        private.create_file(tmp_path / "empty")
        with private.open_append(tmp_path / "log") as log:
            assert mode(tmp_path / "log") == 0o600
            log.write(b"1")
        with private.open_append(tmp_path / "log") as log:
            log.write(b"2")
    assert mode(tmp_path / "empty") == 0o600
    assert (tmp_path / "log").read_bytes() == b"12"


def test_existing_files_become_private_and_keep_their_content(tmp_path: Path) -> None:
    paths = [tmp_path / "empty", tmp_path / "log", tmp_path / "any"]
    for path in paths:
        path.write_text("x")
        path.chmod(0o664)
    private.create_file(paths[0])
    private.open_append(paths[1]).close()
    private.restrict(paths[2])
    assert [(mode(path), path.read_text()) for path in paths] == [(0o600, "x")] * 3
    private.restrict(tmp_path / "missing")
    assert not (tmp_path / "missing").exists()
    (tmp_path / "folder").mkdir(0o755)
    private.restrict(tmp_path / "folder")
    assert mode(tmp_path / "folder") == 0o755
