"""Beginners' mistakes: what ``allot explain`` and ``allot check`` say about each, and what the fixes of ``allot check``
make of it.

``NAME.yaml`` is a manifest with one mistake, ``NAME.txt`` the output of the commands. ``tests/unit/cli/test_apply.py``
applies the same files to a lab.

``ALLOTMENT_UPDATE_CORPUS=1`` regenerates the texts; review the difference before you commit it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from allotment.cli.main import main

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in HERE.glob("*.yaml"))
FLEET = "8xa100-40gb"
#: Mistakes without one likely meaning.
NOT_FIXED = (
    "gpu-limit",
    "half-gpu-limit",
    "memory-that-no-card-has",
    "mig-without-mig-devices",
    "template-in-container",
)
Command = Callable[..., str]


@pytest.fixture
def allot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command in a folder of its own, and returns its output, errors and exit code; no lab is in reach."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: str) -> str:
        code = main(list(arguments))
        printed = capsys.readouterr()
        return f"$ allot {' '.join(arguments)}\n{printed.out}{printed.err}exit code {code}\n"

    return run


@pytest.mark.parametrize("name", NAMES)
def test_answers_of_explain_and_check(name: str, allot: Command, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.yaml"
    file.write_text((HERE / file.name).read_text("utf-8"), "utf-8")
    question = ("explain", "-f", file.name, "--fleet", FLEET)
    answers = [allot(*question), allot("check", "--isolated", file.name)]
    repair = allot("check", "--isolated", "--fix", "--unsafe-fixes", file.name)
    repaired = allot(*question)
    assert (" fits on node " in repaired and "note: " not in repaired) is (name not in NOT_FIXED)
    text = "\n".join((*answers, repair, repaired))
    golden = HERE / f"{name}.txt"
    if os.environ.get("ALLOTMENT_UPDATE_CORPUS"):
        golden.write_text(text, "utf-8")
    assert text == golden.read_text("utf-8"), "review the difference; ALLOTMENT_UPDATE_CORPUS=1 updates the file"
