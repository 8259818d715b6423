from __future__ import annotations

from pathlib import Path

import pytest

from allotment.cli.main import main
from allotment.lab.state import Register, Status
from tests.unit.lab.test_data_check import change, objects


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_data_are_checked_repaired_saved_and_restored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "data" / "allotment" / "labs" / "default"
    objects(folder, "a", "b")
    assert main(["lab", "check"]) == 0
    assert capsys.readouterr().out.startswith(f"No problem found in {folder}: ")
    change(folder, "UPDATE log SET value = CAST('{' AS BLOB) WHERE name = 'b'")
    assert main(["lab", "check"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"problem: {folder / 'lab.db'}: configmaps default/b at revision ")
    assert lines[-1] == "next: allot lab check --repair, with the same --name or --data-dir"
    assert main(["lab", "backup", str(tmp_path / "saved")]) == 2
    assert "repair it first" in capsys.readouterr().err
    assert main(["lab", "check", "--repair"]) == 0
    assert "1 later write lost" in capsys.readouterr().out
    assert main(["lab", "backup", str(tmp_path / "saved")]) == 0
    assert main(["lab", "restore", str(tmp_path / "saved"), "--name", "two"]) == 0
    assert capsys.readouterr().out.endswith(f"to {folder.with_name('two')}.\n")
    assert main(["lab", "check", "--data-dir", str(folder.with_name("two"))]) == 0


@pytest.mark.parametrize("words", [["check"], ["check", "--repair"], ["backup", "x"], ["restore", "x"]])
def test_a_running_lab_is_not_touched(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    register = Register()
    folder = tmp_path / "data" / "allotment" / "labs" / "default"
    with register.hold("default"):
        status = Status("default", 1, "u", "c", "k", "2026-01-01T00:00:00Z", "1", data=str(folder))
        register.write(status)
        assert main(["lab", *words]) == 2
    assert "lab 'default' is running" in capsys.readouterr().err
    assert not folder.exists()


def test_data_are_checked_while_a_lab_of_the_name_is_in_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data" / "allotment" / "labs" / "default"
    objects(folder)
    register = Register()
    with register.hold("default"):
        register.write(Status("default", 1, "u", "c", "k", "2026-01-01T00:00:00Z", "1"))
        assert main(["lab", "check"]) == 0
    assert "No problem found" in capsys.readouterr().out
