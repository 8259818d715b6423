from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from allotment.cdi.spec import CdiDevice, ContainerEdits, InvalidSpec, Spec
from allotment.cdi.store import FolderStore, MemoryStore, SpecStore

Made = Callable[[Path], SpecStore]
both = pytest.mark.parametrize("made", [FolderStore, lambda path: MemoryStore()], ids=["folder", "memory"])


def _spec(value: str = "1") -> Spec:
    return Spec("example.com/gpu", (CdiDevice("gpu-0", ContainerEdits(env=(f"A={value}",))),))


@both
def test_what_is_written_stands_under_its_name_until_it_is_removed(made: Made, tmp_path: Path) -> None:
    store = made(tmp_path / "cdi")
    assert store.names() == frozenset()
    assert store.read("one") is None
    store.write("one", _spec())
    store.write("two.json", _spec("2"))
    store.write("one", _spec("3"))
    assert store.names() == {"one", "two"}
    read = store.read("one")
    assert read is not None
    assert read.devices == _spec("3").devices
    store.remove("one")
    store.remove("one")
    assert store.names() == {"two"}


@both
def test_stamps_change_with_the_content_and_not_without(made: Made, tmp_path: Path) -> None:
    store = made(tmp_path)
    store.write("one", _spec())
    store.write("two", _spec())
    before = store.stamps()
    assert store.stamps() == before
    store.write("one", _spec("2"))
    after = store.stamps()
    assert after["one"] != before["one"]
    assert after["two"] == before["two"]


@both
def test_what_runtimes_refuse_does_not_replace_what_is_there(made: Made, tmp_path: Path) -> None:
    store = made(tmp_path)
    store.write("one", _spec())
    with pytest.raises(InvalidSpec):
        store.write("one", Spec("gpu", ()))
    read = store.read("one")
    assert read is not None
    assert read.kind == "example.com/gpu"


def test_a_file_is_readable_by_all_whatever_the_process_masks(tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        FolderStore(tmp_path / "a" / "b").write("one", _spec())
    finally:
        os.umask(mask)
    assert (tmp_path / "a" / "b" / "one.json").stat().st_mode & 0o777 == 0o644


def test_a_crash_while_writing_leaves_the_old_file_and_nothing_that_runtimes_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = FolderStore(tmp_path)
    folder.write("one", _spec())
    before = (tmp_path / "one.json").read_bytes()

    def crash(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        folder.write("one", _spec("2"))
    with pytest.raises(KeyboardInterrupt):
        folder.write("two", _spec("2"))
    assert (tmp_path / "one.json").read_bytes() == before
    assert folder.names() == {"one"}
    folder.remove("one")
    folder.remove("two")
    assert list(tmp_path.iterdir()) == []


def test_other_peoples_files_are_seen_and_left_alone(tmp_path: Path) -> None:
    theirs = {"vendor.yaml": "x", "vendor.json": "{", "README": "x", ".hidden": "x"}
    for name, text in theirs.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "sub.json").mkdir()
    folder = FolderStore(tmp_path)
    folder.write("one", _spec())
    folder.remove("one")
    assert folder.names() == {"vendor.yaml", "vendor"}
    assert {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()} == theirs
    with pytest.raises(InvalidSpec, match=r"vendor\.json: "):
        folder.read("vendor")


@pytest.mark.parametrize("name", ["", "../one", "a/b", ".one"])
def test_a_name_stays_in_its_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a CDI file's name"):
        FolderStore(tmp_path).write(name, _spec())
