"""The files for the forge: workflows, the action for manifests, and the pre-commit hooks."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from allotment.cli.main import command_line
from tests.packaging import go_programs
from tests.packaging.helm import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTION = ROOT / "action.yml"


def test_actionlint_accepts_the_workflows() -> None:
    actionlint = go_programs.required_program("actionlint")
    done = subprocess.run([actionlint], cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("file", [*WORKFLOWS, ACTION], ids=lambda file: file.name)
def test_actions_of_others_are_pinned_to_a_commit(file: Path) -> None:
    for action in re.findall(r"^ *-? *uses: (.+)$", file.read_text(), re.MULTILINE):
        assert action.startswith("./") or re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", action), action


def test_a_matrix_contains_each_supported_python() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]


class Checked(NamedTuple):
    """The outputs of the action's step, its log, and the findings in SARIF."""

    status: str
    log: str
    findings: list[Any]


def checked(folder: Path, paths: str, arguments: str = "") -> Checked:
    """Run the step of the action that checks manifests, as a runner does."""
    (step,) = (step for step in yaml.safe_load(ACTION.read_text())["runs"]["steps"] if step.get("id") == "check")
    program = folder / "allotment" / "bin" / "allot"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m allotment.cli.main "$@"\n')
    program.chmod(0o755)
    outputs = folder / "outputs"
    environment = {
        **os.environ, "PATHS": paths, "ARGUMENTS": arguments, "FORMAT": "github", "RUNNER_TEMP": str(folder),
        "GITHUB_OUTPUT": str(outputs),
    }  # fmt: skip
    assert step["env"].keys() <= environment.keys()
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]], cwd=ROOT, env=environment,
        capture_output=True, text=True, check=True, timeout=240,
    )  # fmt: skip
    found = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
    sarif = Path(found["sarif"]).read_text()
    findings = json.loads(sarif)["runs"][0]["results"] if found["status"] in ("0", "1") else []
    return Checked(found["status"], done.stdout, findings)


def test_the_action_finds_mistakes(tmp_path: Path) -> None:
    done = checked(tmp_path, "src/allotment/examples/12-flat-request.yaml")
    assert done.status == "1"
    assert "::error file=src/allotment/examples/12-flat-request.yaml,line=" in done.log
    assert done.findings


def test_the_action_accepts_valid_manifests(tmp_path: Path) -> None:
    done = checked(tmp_path, "src/allotment/examples/01-one-ampere-gpu.yaml", "--fleet 8xa100-40gb --fail-on warning")
    assert (done.status, done.findings) == ("0", [])


def test_the_action_reports_invalid_arguments(tmp_path: Path) -> None:
    assert checked(tmp_path, "src/allotment/examples", "--fleet unknown").status == "2"


def test_the_hooks_are_commands() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert [hook["id"] for hook in hooks] == ["allot-check", "allot-fix"]
    for hook in hooks:
        program, *words = shlex.split(hook["entry"])
        assert program == "allot"
        command_line().parse_args([*words, "deploy", "--fleet", "dgx-a100-40gb"])
