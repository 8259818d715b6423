"""Where the lab's packages are not installed, whoever asks for a lab is told in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from allotment.lab import optional_dependencies

#: As if the packages were not there, for this process.
_WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({optional_dependencies.NEEDED!r}))"
_TOLD = "a lab needs httptools, aiohttp, cryptography: pip install 'allotment[lab]'"


def python(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"{_WITHOUT}\n{script}"],
        cwd=folder, env={"HOME": str(folder)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("words", [["up"], ["up", "--detach"]])
def test_allot_up(words: list[str], tmp_path: Path) -> None:
    done = python(f"from allotment.cli.main import main; sys.exit(main({words!r}))", tmp_path)
    assert (done.returncode, done.stderr) == (2, f"allot: error: {_TOLD}\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("words", "code"), [(["down"], 0), (["status"], 1)])
def test_other_labs_can_be_seen_and_stopped(words: list[str], code: int, tmp_path: Path) -> None:
    done = python(f"from allotment.cli.main import main; sys.exit(main({words!r}))", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (code, "No lab runs.\n", "")


@pytest.mark.parametrize("words", [["get", "pods"], ["apply", "-f", "x.yaml"], ["explain", "x", "--context", "y"]])
def test_commands_that_speak_to_a_cluster(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: x}}")
    done = python(f"from allotment.cli.main import main; sys.exit(main({words!r}))", tmp_path)
    assert done.returncode in (1, 2)  # kubectl's own words end with 1
    assert done.stderr.endswith("needs aiohttp\n  pip install 'allotment[cluster]'\n")


def test_the_library(tmp_path: Path) -> None:
    done = python("import allotment; allotment.Lab()", tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith(f"NotInstalled: {_TOLD}\n")


def test_the_fixture_of_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(allotment_lab): pass\n")
    done = python("import pytest; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', 'test_it.py']))", tmp_path)
    assert done.returncode == 1
    assert f"NotInstalled: {_TOLD}\n" in done.stdout
