"""The tutorial's folder: nothing that the reader wrote is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.cli.tutorial.folder import Folder, packaged
from allotment.errors import InputError


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A new folder of the tutorial."""
    folder = Folder(tmp_path / "steps")
    folder.make()
    return folder


def test_progress_is_read_again(folder: Folder) -> None:
    assert folder.is_new is False
    folder.complete("look")
    assert Folder(folder.path).progress.done == ["look"]


def test_a_manifest_is_written_once(folder: Folder) -> None:
    folder.add("trainer.yaml")
    assert folder.is_at_start("trainer.yaml")
    (folder.path / "trainer.yaml").write_text("mine\n")
    folder.add("trainer.yaml")
    assert (folder.path / "trainer.yaml").read_text() == "mine\n"


def test_a_file_of_the_reader_is_not_overwritten(folder: Folder) -> None:
    (folder.path / "batch.yaml").write_text("mine\n")
    with pytest.raises(InputError, match=r"batch\.yaml exists, and the tutorial did not write it"):
        folder.add("batch.yaml")
    assert (folder.path / "batch.yaml").read_text() == "mine\n"


def test_each_edited_version_is_kept(folder: Folder) -> None:
    folder.add("trainer.yaml")
    for text, name in (("first\n", "trainer.yaml.old"), ("second\n", "trainer.yaml.old2")):
        (folder.path / "trainer.yaml").write_text(text)
        assert folder.restore("trainer.yaml") == name
        assert (folder.path / name).read_text() == text
        assert (folder.path / "trainer.yaml").read_text() == packaged("trainer.yaml")
    assert folder.restore("trainer.yaml") == "", "as the tutorial wrote it"


def test_reset_deletes_only_what_the_tutorial_wrote(folder: Folder) -> None:
    folder.add("trainer.yaml")
    folder.add("batch.yaml")
    folder.kubeconfig.write_text("kind: Config\n")
    (folder.path / "notes.txt").write_text("mine\n")
    (folder.path / "batch.yaml").write_text("edited\n")
    assert folder.reset() == ["batch.yaml.old"]
    assert sorted(path.name for path in folder.path.iterdir()) == ["batch.yaml.old", "notes.txt"]
    assert folder.is_new


def test_a_folder_of_an_interrupted_run_is_used(tmp_path: Path) -> None:
    (tmp_path / "steps" / ".tutorial" / "lab").mkdir(parents=True)
    (tmp_path / "steps" / ".tutorial" / "lab" / "of-an-earlier-tutorial").touch()
    folder = Folder(tmp_path / "steps")
    folder.make()
    assert not any((tmp_path / "steps" / ".tutorial").rglob("of-an-earlier-tutorial"))


def test_a_manifest_that_was_written_but_not_recorded_is_the_tutorials(folder: Folder) -> None:
    (folder.path / "batch.yaml").write_text(packaged("batch.yaml"))
    folder.add("batch.yaml")
    assert Folder(folder.path).progress.files.keys() == {"batch.yaml"}


def test_a_damaged_progress_file_is_an_error(folder: Folder) -> None:
    (folder.path / ".tutorial" / "progress.json").write_text("{")
    with pytest.raises(InputError, match=r"progress\.json is damaged"):
        Folder(folder.path)
