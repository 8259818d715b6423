"""``allot tutorial``: all steps without a terminal, going on where it was left, and its errors."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from allotment.cli.main import main
from allotment.cli.tutorial import command
from allotment.cli.tutorial.lab_objects import LabObjects
from allotment.cli.tutorial.step import Command, Met, Step, Unmet
from allotment.cli.tutorial.steps import STEPS
from allotment.lab.state import Register
from tests.unit.cli.conftest import Allot

POD = "{apiVersion: v1, kind: Pod, metadata: {name: kept}, spec: {containers: [{name: main, image: app}]}}"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)


def test_without_a_terminal_every_step_is_done_and_checked(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ran = allot("tutorial")
    assert ran.code == 0, ran.out
    assert "\x1b" not in ran.out
    assert ran.out.count("\nDone: ") == len(STEPS)
    flat = " ".join(ran.out.split())
    assert "Done: Pod trainer runs on node h100 with gpu-0 (NVIDIA H100 80GB HBM3)" in flat
    assert "Done: 2 pods share gpu-0 (Tesla T4) of node t4" in flat
    assert "Done: Pod classifier runs on node mig with gpu-0-mig-1g5gb-19-0" in flat
    assert "Done: Pod finetune is pending" in flat
    assert "Done: Pod finetune runs on node h100 with gpu-1" in flat
    assert "batch.yaml: fixed 1 × C202" in flat
    assert "Done: Pod batch runs on node t4 with gpu-1" in flat
    assert "Done: 6, because the A100 has seven MIG devices" in flat
    assert "Done: No pods and no claims are left" in flat
    assert "All 9 steps are done, and every check holds." in flat
    again = allot("tutorial", "--yes")
    assert (again.code, again.out) == (0, "All 9 steps are completed. To begin again: allot tutorial --reset\n")


def _steps(second: Command) -> tuple[Step, ...]:
    def has_pod(objects: LabObjects) -> Met | Unmet:
        return Met("It exists.") if objects.pod("kept") else Unmet()

    first = Step(
        name="a", title="A pod", text="Make it.", commands=(Command("allot apply -f pod.yaml"),), check=has_pod
    )
    return first, Step(name="b", title="The same pod", text="Keep it.", commands=(second,), check=has_pod)


def test_the_tutorial_goes_on_where_it_was_left_with_the_same_objects(
    allot: Allot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "STEPS", _steps(Command("allot rule S102", code=1)))
    folder = Path("one")
    folder.mkdir()
    ran = allot("tutorial", "--yes", "--dir", "one/two")
    assert "pod.yaml: unreadable" in ran.err, "the step has no file yet"
    assert "Failed: allot apply -f pod.yaml: exit code 1, expected 0" in ran.out
    (folder / "two" / "pod.yaml").write_text(POD)
    ran = allot("tutorial", "--yes", "--dir", "one/two")
    assert ran.code == 1
    assert "Step 1 of 2: A pod" in ran.out
    assert "Done: It exists." in ran.out
    assert "Failed: allot rule S102: exit code 0, expected 1" in ran.out
    assert "To continue: allot tutorial --dir one/two" in ran.out
    monkeypatch.setattr(command, "STEPS", _steps(Command("allot rule S102")))
    ran = allot("tutorial", "--yes", "--dir", "one/two")
    assert ran.code == 0
    assert "Step 1 of 2" not in ran.out
    assert "Step 2 of 2: The same pod" in ran.out
    assert "Done: It exists." in ran.out


def test_a_printed_command_can_be_copied(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "STEPS", ())
    long = "a folder whose name is long enough for a line of its own"
    ran = allot("tutorial", "--dir", long)
    assert ran.out.splitlines() == [
        "All 0 steps are completed. To begin again:", f"  allot tutorial --dir '{long}' --reset",
    ]  # fmt: skip


def test_a_folder_with_other_files_is_not_used(allot: Allot) -> None:
    folder = Path("allot-tutorial")
    folder.mkdir()
    (folder / "mine.yaml").write_text("kind: Mine\n")
    ran = allot("tutorial")
    assert ran.code == 2
    assert "the folder allot-tutorial is not empty, and the tutorial did not make it" in ran.err
    assert "use another one with --dir" in ran.err
    assert [path.name for path in folder.iterdir()] == ["mine.yaml"]
    (folder / "mine.yaml").rename("file")
    assert "file is not a folder" in allot("tutorial", "--dir", "file").err


@pytest.mark.parametrize("options", [(), ("--reset",)])
def test_only_one_tutorial_runs_at_a_time(allot: Allot, options: tuple[str, ...]) -> None:
    folder = Path("allot-tutorial/.tutorial")
    folder.mkdir(parents=True)
    (folder / "progress.json").write_text("{}")
    with Register().hold("tutorial"):
        ran = allot("tutorial", *options)
    assert ran.code == 2
    assert "the tutorial is already running" in ran.err
    assert "stop it: allot down tutorial" in ran.err


def test_reset_begins_again_and_keeps_edited_manifests(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path("allot-tutorial")
    (folder / ".tutorial").mkdir(parents=True)
    (folder / ".tutorial" / "progress.json").write_text('{"done": ["look"], "files": {"trainer.yaml": "0"}}')
    (folder / "trainer.yaml").write_text("mine\n")
    monkeypatch.setattr(command, "STEPS", ())
    ran = allot("tutorial", "--reset")
    assert ran.code == 0
    assert "Your version of a manifest is kept: allot-tutorial/trainer.yaml.old" in ran.out
    assert [path.name for path in folder.iterdir()] == ["trainer.yaml.old"]


def test_without_standard_input_every_step_is_done(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "STEPS", STEPS[:1])
    monkeypatch.setattr(sys, "stdin", None)
    ran = allot("tutorial")
    assert (ran.code, ran.err) == (0, "")
    assert "Done: h100, because" in ran.out


def test_on_a_terminal_the_reader_answers(allot: Allot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "STEPS", STEPS[:1])
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal, device = os.openpty()
    os.write(terminal, b"t4\nh100\n")
    with open(device, encoding="utf-8", closefd=False) as lines, open(device, "w", closefd=False) as out:
        monkeypatch.setattr(sys, "stdin", lines)
        monkeypatch.setattr(sys, "stdout", out)
        assert main(["tutorial"]) == 0
    text = os.read(terminal, 1 << 16).decode()
    os.close(terminal)  # the thread that reads the lines ends
    for thread in threading.enumerate():
        if thread.name == "allotment-terminal":
            thread.join()
    os.close(device)
    assert "Enter: do this step for me" in text
    assert "Not yet:\x1b[0m t4 is not right." in text
    assert "Done:\x1b[0m h100, because" in text
