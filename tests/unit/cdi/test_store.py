from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from allotment.cdi.spec import CdiDevice, ContainerEdits, InvalidSpec, Spec
from allotment.cdi.store import FolderStore, MemoryStore, SpecStore

StoreFactory = Callable[[Path], SpecStore]
both = pytest.mark.parametrize("create", [FolderStore, lambda path: MemoryStore()], ids=["folder", "memory"])


def _spec(value: str = "1") -> Spec:
    return Spec("example.com/gpu", (CdiDevice("gpu-0", ContainerEdits(env=(f"A={value}",))),))


@both
def test_a_file_is_stored_under_its_name_until_it_is_removed(create: StoreFactory, tmp_path: Path) -> None:
    store = create(tmp_path / "cdi")
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
def test_stamps_change_only_with_the_content(create: StoreFactory, tmp_path: Path) -> None:
    store = create(tmp_path)
    store.write("one", _spec())
    store.write("two", _spec())
    before = store.stamps()
    assert store.stamps() == before
    store.write("one", _spec("2"))
    after = store.stamps()
    assert after["one"] != before["one"]
    assert after["two"] == before["two"]


@both
def test_an_invalid_specification_does_not_replace_a_valid_one(create: StoreFactory, tmp_path: Path) -> None:
    store = create(tmp_path)
    store.write("one", _spec())
    with pytest.raises(InvalidSpec):
        store.write("one", Spec("gpu", ()))
    read = store.read("one")
    assert read is not None
    assert read.kind == "example.com/gpu"


def test_a_file_is_readable_by_all_with_any_umask(tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        FolderStore(tmp_path / "a" / "b").write("one", _spec())
    finally:
        os.umask(mask)
    assert (tmp_path / "a" / "b" / "one.json").stat().st_mode & 0o777 == 0o644


def test_a_crash_during_a_write_leaves_the_old_file_and_no_file_for_runtimes(
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


def test_files_of_other_programs_are_listed_and_not_changed(tmp_path: Path) -> None:
    files = {"vendor.yaml": "x", "vendor.json": "{", "README": "x", ".hidden": "x"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "sub.json").mkdir()
    folder = FolderStore(tmp_path)
    folder.write("one", _spec())
    folder.remove("one")
    assert folder.names() == {"vendor.yaml", "vendor"}
    assert {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()} == files
    with pytest.raises(InvalidSpec, match=r"vendor\.json: "):
        folder.read("vendor")


@pytest.mark.parametrize("name", ["", "../one", "a/b", ".one"])
def test_names_outside_of_the_folder_are_rejected(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a CDI file name"):
        FolderStore(tmp_path).write(name, _spec())
