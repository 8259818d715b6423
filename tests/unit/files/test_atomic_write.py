from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from allotment.files import atomic_write
from allotment.files.atomic_write import PUBLIC, Owner, Sync


def record_syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the kinds of synced descriptors, ``file`` or ``folder``, in order."""
    kinds: list[str] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        kinds.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    return kinds


@pytest.mark.parametrize("single_writer", [False, True])
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o640])
def test_replaced_file_has_its_mode_with_any_umask(tmp_path: Path, mode: int, single_writer: bool) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o666)
    mask = os.umask(0o077)
    try:
        atomic_write.replace(path, b"new", mode=mode, single_writer=single_writer)
    finally:
        os.umask(mask)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", mode)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("fails", ["fsync", "fchmod"])
@pytest.mark.parametrize("write", [atomic_write.replace, atomic_write.create])
def test_failed_write_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, bytes], None], fails: str
) -> None:
    def full(*_: int) -> None:
        raise OSError("no space")

    path = tmp_path / "file"
    path.write_text("old")
    monkeypatch.setattr(os, fails, full)
    with pytest.raises(OSError, match="no space"):
        write(path, b"new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_create_does_not_replace_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic_write.create(path, b"first", mode=PUBLIC)
    with pytest.raises(FileExistsError):
        atomic_write.create(path, b"second")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("first", PUBLIC)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("sync", "kinds"), [(Sync.NONE, []), (Sync.CONTENT, ["file"]), (Sync.ALL, ["file", "folder"])])
def test_sync_level_decides_what_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: Sync, kinds: list[str]
) -> None:
    recorded = record_syncs(monkeypatch)
    atomic_write.replace(tmp_path / "file", b"1", sync=sync)
    assert recorded == kinds
    atomic_write.create(tmp_path / "other", b"1", sync=sync)
    assert recorded == kinds * 2


def test_temporary_file_of_a_killed_single_writer_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    leftover = atomic_write.temporary_path(path)
    leftover.write_text("half of a longer text")
    leftover.chmod(0o666)
    atomic_write.replace(path, b"new", single_writer=True)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_temporary_file_has_content_mode_and_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owners: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "fchown", lambda _, user, group: owners.append((user, group)))
    temporary = atomic_write.write_temporary(tmp_path / "file", b"new", mode=PUBLIC, owner=Owner(7, 8))
    assert (temporary.read_bytes(), stat.S_IMODE(temporary.stat().st_mode), owners) == (b"new", PUBLIC, [(7, 8)])
    assert list(tmp_path.iterdir()) == [temporary]
    assert temporary.name.startswith(".file.")


def test_unsupported_folder_sync_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    atomic_write.sync_folder(tmp_path / "missing")

    def unsupported(_: int) -> None:
        raise OSError(22, "invalid argument")

    monkeypatch.setattr(os, "fsync", unsupported)
    atomic_write.sync_folder(tmp_path)

    def broken(_: int) -> None:
        raise OSError(5, "input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="input/output error"):
        atomic_write.sync_folder(tmp_path)
