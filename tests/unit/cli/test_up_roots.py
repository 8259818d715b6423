"""``allot up --kubelet-roots``: an unusable directory is reported before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.cli.main import main


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    Path("a").touch()
    return "a"


@pytest.mark.parametrize(
    ("below", "wanted"), [("", "file exists"), ("/b", "not a directory"), ("/" + 60 * "c", "bytes")]
)
def test_invalid_directory_is_one_line(
    file: str, below: str, wanted: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allotment.lab.settings.LONGEST_ROOTS", len(str(Path("a").absolute())) + 10)
    assert main(["up", "--ephemeral", "--fleet", "t4", "--kubelet-roots", file + below]) == 2
    error = capsys.readouterr().err
    assert error.startswith("allot: error: --kubelet-roots: ")
    assert wanted in error
