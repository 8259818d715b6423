"""Either all files change or none; a file is never partly written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from allotment.api.objects.file_writer import write_all
from allotment.errors import InputError


@pytest.fixture
def three(tmp_path: Path) -> list[Path]:
    files = [tmp_path / f"{name}.yaml" for name in "abc"]
    for file in files:
        file.write_text(f"old {file.stem}\n")
    return files


def write(files: list[Path]) -> None:
    write_all({str(file): f"new {file.stem}\n" for file in files}, {str(file): f"old {file.stem}\n" for file in files})


def texts(files: list[Path]) -> list[str]:
    return [file.read_text() for file in files]


def test_all_files_are_replaced_without_leftovers(three: list[Path]) -> None:
    write(three)
    assert texts(three) == ["new a\n", "new b\n", "new c\n"]
    assert sorted(three[0].parent.iterdir()) == three


def test_mode_and_line_endings_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"\xef\xbb\xbfa\r\n")
    file.chmod(0o640)
    write_all({str(file): "\ufeffb\r\n"}, {str(file): "\ufeffa\r\n"})
    assert file.read_bytes() == b"\xef\xbb\xbfb\r\n"
    assert file.stat().st_mode & 0o777 == 0o640


def test_the_target_of_a_link_is_written(three: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    link = other / "link.yaml"
    link.symlink_to("../a.yaml")
    write_all({str(link): "new a\n"}, {str(link): "old a\n"})
    assert link.is_symlink()
    assert three[0].read_text() == "new a\n"
    assert list(other.iterdir()) == [link]


#: Replaces the texts of files; killed before the file with this number is replaced.
KILLED = """
import os, pathlib, signal, sys
from allotment.api.objects.file_writer import write_all
replace, left = pathlib.Path.replace, [int(sys.argv[1])]
def replace_or_die(self, target):
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    return replace(self, target)
pathlib.Path.replace = replace_or_die
files = [pathlib.Path(file) for file in sys.argv[2:]]
write_all({str(file): f"new {file.stem}\\n" for file in files}, {str(file): file.read_text() for file in files})
"""


@pytest.mark.parametrize("replaced", [0, 1, 2])
def test_files_of_a_killed_process_are_removed_by_the_next(three: list[Path], replaced: int) -> None:
    folder = three[0].parent
    killed = subprocess.run([sys.executable, "-c", KILLED, str(replaced), *map(str, three)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(folder.iterdir())) > len(three)
    running = folder / f".a.yaml.{os.getpid()}.x.new"  # another process still writes it
    running.touch()
    write_all(
        {str(file): f"new {file.stem}\n" for file in three[replaced:]}, {str(file): file.read_text() for file in three}
    )
    assert texts(three) == ["new a\n", "new b\n", "new c\n"]
    assert sorted(folder.iterdir()) == [running, *three]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_failed_replacement_changes_no_file(three: list[Path], monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    before = [file.stat().st_ino for file in three]
    replace = Path.replace

    def broken(self: Path, target: Path) -> Path:
        if self.suffix == ".new" and Path(target) == three[failing]:
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(InputError, match="cannot be written: no space left on device"):
        write(three)
    assert texts(three) == ["old a\n", "old b\n", "old c\n"]
    assert [file.stat().st_ino for file in three] == before
    assert sorted(three[0].parent.iterdir()) == three


def test_a_failed_preparation_changes_no_file(three: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    written = 0
    sync = os.fsync

    def broken(number: int) -> None:
        nonlocal written
        written += 1
        if written == 2:
            raise OSError(5, "Input/output error")
        sync(number)

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(InputError, match=r"b.yaml: cannot be written"):
        write(three)
    assert texts(three) == ["old a\n", "old b\n", "old c\n"]
    assert sorted(three[0].parent.iterdir()) == three


def test_concurrently_changed_file_is_not_overwritten(three: list[Path]) -> None:
    three[1].write_text("another program's\n")
    with pytest.raises(InputError, match=r"b.yaml: the file changed during the check"):
        write(three)
    assert texts(three) == ["old a\n", "another program's\n", "old c\n"]


def test_without_links_a_copy_is_kept(three: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def none(source: Path, target: Path) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", none)
    write(three)
    assert texts(three) == ["new a\n", "new b\n", "new c\n"]
    assert sorted(three[0].parent.iterdir()) == three


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everything")
def test_a_read_only_file_is_not_written(three: list[Path]) -> None:
    three[2].chmod(0o444)
    with pytest.raises(InputError, match="permission denied"):
        write(three)
    assert texts(three) == ["old a\n", "old b\n", "old c\n"]
