"""Allotment as one file, run by a Python without installed packages."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.packaging.helm import ROOT

EXAMPLE = ROOT / "src" / "allotment" / "examples" / "01-one-ampere-gpu.yaml"


@pytest.fixture(scope="module")
def zipapp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as by `make zipapp`, but for this Python only."""
    file = tmp_path_factory.mktemp("zipapp") / "allot.pyz"
    release = f"{sys.version_info.major}.{sys.version_info.minor}"
    environment = {**os.environ, "PYTHON": sys.executable, "RELEASES": release}
    done = subprocess.run(
        [ROOT / "scripts" / "zipapp", file], env=environment, capture_output=True, text=True, check=False, timeout=280
    )
    if done.returncode and "No matching distribution" in done.stderr:
        pytest.skip(f"the requirements cannot be downloaded: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return file


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without packages."""
    home = tmp_path_factory.mktemp("bare") / "venv"
    venv.create(home, with_pip=False)
    return home / "bin" / "python"


def run(python: Path, *arguments: str | Path, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *arguments], env={"HOME": str(home), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
        check=False, timeout=240, cwd=home,
    )  # fmt: skip


def test_the_zipapp_explains(zipapp: Path, bare: Path, tmp_path: Path, record_score: Callable[[str], None]) -> None:
    explain = (zipapp, "explain", "-f", EXAMPLE, "--fleet", "8xa100-40gb")
    first = run(bare, *explain, home=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "fits on node" in first.stdout
    begin = time.perf_counter()
    assert run(bare, *explain, home=tmp_path).stdout == first.stdout
    size = zipapp.stat().st_size / 1e6
    record_score(f"allot.pyz: {size:.1f} MB, explained in {(time.perf_counter() - begin) * 1000:.0f} ms")


def test_an_unsupported_python_is_reported(zipapp: Path, bare: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(zipapp) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/preamble.py"))
        preamble = archive.read(name).decode()
    other = run(bare, "-c", f"import sys; sys.version_info = (3, 10)\n{preamble}", home=tmp_path)
    assert other.returncode == 1
    assert other.stderr.startswith("allot: error: this file is for Python 3.1")
    assert other.stderr.endswith("this is Python 3.10\n")
    assert run(bare, "-c", preamble, home=tmp_path).returncode == 0


def test_it_connects_to_clusters(zipapp: Path, bare: Path, tmp_path: Path) -> None:
    """The client reports that the connection failed; no import fails."""
    (tmp_path / "config").write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: it\n"
        "clusters: [{name: it, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: []\n"
        "contexts: [{name: it, context: {cluster: it}}]\n"
    )
    done = run(bare, zipapp, "free", "--kubeconfig", str(tmp_path / "config"), "--context", "it", home=tmp_path)
    assert done.returncode == 2
    assert "127.0.0.1:1" in done.stderr
    assert "install" not in done.stderr
