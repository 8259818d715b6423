from __future__ import annotations

from pathlib import Path

import pytest

from allotment.cdi.lookup import CdiDevices, UnresolvableDevices
from allotment.cdi.spec import CdiDevice, ContainerEdits, Spec
from allotment.cdi.store import FolderStore, MemoryStore


def _spec(*devices: str, value: str = "1", common: str = "") -> Spec:
    edits = ContainerEdits(env=(f"COMMON={common}",)) if common else ContainerEdits()
    named = tuple(CdiDevice(name, ContainerEdits(env=(f"{name.upper()}={value}",))) for name in devices)
    return Spec("example.com/gpu", named, edits)


def _ids(*names: str) -> list[str]:
    return [f"example.com/gpu={name}" for name in names]


def test_edits_are_in_the_order_of_names_with_common_edits_once_before_them() -> None:
    store = MemoryStore()
    store.write("one", _spec("a", "b", common="yes"))
    store.write("two", _spec("c"))
    edits = CdiDevices([store]).edits(_ids("c", "b", "a", "b"))
    assert edits.env == ("C=1", "COMMON=yes", "B=1", "A=1")


def test_an_unknown_device_is_an_error_with_the_runtime_s_text() -> None:
    store = MemoryStore()
    store.write("one", _spec("a"))
    with pytest.raises(UnresolvableDevices) as caught:
        CdiDevices([store]).edits(_ids("x", "a", "y"))
    assert str(caught.value) == "unresolvable CDI devices example.com/gpu=x, example.com/gpu=y"


def test_a_device_in_two_files_of_a_folder_is_unusable_and_their_other_devices_are_not(tmp_path: Path) -> None:
    folder = FolderStore(tmp_path)
    folder.write("one", _spec("a", "both"))
    folder.write("two", _spec("b", "both"))
    devices = CdiDevices([folder])
    assert devices.names() == set(_ids("a", "b"))
    with pytest.raises(UnresolvableDevices) as caught:
        devices.edits(_ids("both"))
    assert caught.value.reasons == ("conflicting device 'example.com/gpu=both' (specs 'one', 'two')",)
    folder.remove("two")
    assert devices.edits(_ids("both")).env == ("BOTH=1",)


def test_the_later_folder_has_priority() -> None:
    static, dynamic = MemoryStore(), MemoryStore()
    static.write("one", _spec("a", "b", value="static"))
    dynamic.write("one", _spec("a", value="dynamic"))
    devices = CdiDevices([static, dynamic])
    assert devices.edits(_ids("a", "b")).env == ("A=dynamic", "B=static")
    dynamic.remove("one")
    assert devices.edits(_ids("a")).env == ("A=static",)


def test_a_conflict_remains_with_a_later_folder() -> None:
    # As in the reference library, which does not choose between the files of a folder.
    static, dynamic = MemoryStore(), MemoryStore()
    static.write("one", _spec("a"))
    static.write("two", _spec("a"))
    dynamic.write("one", _spec("a"))
    assert CdiDevices([static, dynamic]).names() == frozenset()


def test_an_invalid_file_does_not_affect_the_others(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"cdiVersion": "9.9.9", "kind": "a/b", "devices": []}')
    folder = FolderStore(tmp_path)
    folder.write("one", _spec("a"))
    devices = CdiDevices([folder])
    assert devices.edits(_ids("a")).env == ("A=1",)
    assert len(devices.problems()) == 1
    assert "broken.json: cdiVersion: expected one of 0.3.0" in devices.problems()[0]


def test_files_are_read_again_only_after_a_change(tmp_path: Path) -> None:
    class Counting(FolderStore):
        reads = 0

        def read(self, name: str) -> Spec | None:
            self.reads += 1
            return super().read(name)

    folder = Counting(tmp_path)
    folder.write("one", _spec("a"))
    folder.write("two", _spec("b"))
    devices = CdiDevices([folder])
    for _ in range(3):
        devices.edits(_ids("a", "b"))
    assert folder.reads == 2
    folder.write("two", _spec("b", value="22"))
    assert devices.edits(_ids("a", "b")).env == ("A=1", "B=22")
    assert folder.reads == 3


def test_a_missing_folder_is_empty(tmp_path: Path) -> None:
    assert CdiDevices([FolderStore(tmp_path / "none")]).names() == frozenset()
