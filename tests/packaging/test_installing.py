"""Installing a release from its files, without network: pip, pipx, uvx, the zipapp and krew; and what then runs."""

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

import allotment
from tests.packaging import built_release, go_programs
from tests.packaging.built_release import PLATFORM, PYTHON
from tests.packaging.helm import ROOT

EXAMPLE = ROOT / "src" / "allotment" / "examples" / "01-one-ampere-gpu.yaml"
EXPLAIN = ("explain", "-f", EXAMPLE, "--fleet", "8xa100-40gb")
VERSION = f"allot {allotment.__version__}\n"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_release.build(tmp_path_factory.mktemp("release") / "dist")


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def index() -> Path:
    """A folder with the dependencies, for installers without network."""
    return built_release.wheels()


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without packages."""
    home = tmp_path_factory.mktemp("bare") / "venv"
    venv.create(home, with_pip=False)
    return home / "bin" / "python"


def run(*command: str | Path, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a home folder of its own, without this project's environment."""
    return subprocess.run(
        command, env={"HOME": str(home), "PATH": "/usr/bin:/bin", **environment}, capture_output=True, text=True,
        check=False, timeout=240, cwd=home,
    )  # fmt: skip


def output(*command: str | Path, home: Path, **environment: str) -> str:
    done = run(*command, home=home, **environment)
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout


def unreachable_cluster(folder: Path) -> Path:
    """A kubeconfig with an address at which nothing listens."""
    path = folder / "config"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: it\n"
        "clusters: [{name: it, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: []\n"
        "contexts: [{name: it, context: {cluster: it}}]\n"
    )
    return path


def answers(home: Path, *allot: str | Path) -> None:
    """A plain installation reads files and connects to clusters."""
    assert output(*allot, "--version", home=home) == VERSION
    assert output(*allot, home=home).endswith("allot --help lists all commands.\n")
    assert "fits on node" in output(*allot, *EXPLAIN, home=home)
    config = unreachable_cluster(home)
    free = run(*allot, "free", "--kubeconfig", config, "--context", "it", home=home)
    assert free.returncode == 2
    assert "127.0.0.1:1" in free.stderr
    assert "pip install" not in free.stderr


def test_a_plain_installation_answers_questions_about_files_and_clusters(
    wheel: Path, index: Path, bare: Path, tmp_path: Path
) -> None:
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--isolated")
    output(*pip, "--python", bare, "install", "--no-index", "--find-links", index, wheel, home=tmp_path)
    answers(tmp_path, bare.with_name("allotment"))
    assert "running a lab requires cryptography" in run(bare.with_name("allot"), "up", home=tmp_path).stderr


def test_uvx_runs_the_wheel(wheel: Path, index: Path, tmp_path: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    offline = ("--offline", "--no-config", "--no-index", "--find-links", index, "--python", sys.executable)
    answers(tmp_path, uv, "tool", "run", *offline, "--from", wheel, "allotment")


def test_pipx_runs_the_wheel(wheel: Path, index: Path, tmp_path: Path) -> None:
    pipx = Path(sys.executable).with_name("pipx")
    environment = {"UV_OFFLINE": "1", "UV_NO_INDEX": "1", "UV_FIND_LINKS": str(index)}
    path = f"{pipx.parent}:/usr/bin:/bin"  # with uv, pipx does not install pip first, for which it needs the network
    words = ("run", "--backend", "uv", "--python", sys.executable, "--spec", wheel, "allotment")
    assert output(pipx, *words, "--version", home=tmp_path, **environment, PATH=path) == VERSION


def test_the_zipapp_runs_with_python_alone(
    dist: Path, bare: Path, tmp_path: Path, record_score: Callable[[str], None]
) -> None:
    zipapp = dist / f"allot-{PLATFORM}.pyz"
    answers(tmp_path, bare, zipapp)
    begin = time.perf_counter()
    output(bare, zipapp, *EXPLAIN, home=tmp_path)
    size = zipapp.stat().st_size / 1e6
    record_score(f"allot.pyz: {size:.1f} MB, explained in {(time.perf_counter() - begin) * 1000:.0f} ms")


def test_the_zipapp_runs_a_lab(dist: Path, bare: Path, tmp_path: Path) -> None:
    allot = (bare, dist / f"allot-{PLATFORM}.pyz")
    words = (
        "up",
        "--detach",
        "--ephemeral",
        "--port",
        "0",
        "--fleet",
        "t4-4x-pcie",
        "--kubeconfig",
        tmp_path / "config",
    )
    output(*allot, *words, home=tmp_path)
    try:
        assert "4 of 4 devices are free" in output(*allot, "free", "--kubeconfig", tmp_path / "config", home=tmp_path)
    finally:
        output(*allot, "down", home=tmp_path)


def test_the_zipapp_reports_another_python(dist: Path, bare: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(dist / f"allot-{PLATFORM}.pyz") as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/preamble.py"))
        preamble = archive.read(name).decode()
    other = run(bare, "-c", f"import sys; sys.version_info = (3, 10)\n{preamble}", home=tmp_path)
    assert other.returncode == 1
    assert other.stderr == f"allot: error: this file is for Python {PYTHON}; this is Python 3.10\n"
    assert run(bare, "-c", preamble, home=tmp_path).returncode == 0


def test_krew_installs_the_plugin(dist: Path, bare: Path, kubectl: str, tmp_path: Path) -> None:
    krew = go_programs.required_program("krew")
    root = tmp_path / "krew"
    archive = dist / f"kubectl-allot-{PLATFORM}.tar.gz"
    words = ("install", f"--manifest={dist / 'allot.yaml'}", f"--archive={archive}")
    output(krew, *words, home=tmp_path, KREW_ROOT=str(root))
    # The plugin runs with the first python3 on the PATH.
    path = os.pathsep.join(map(str, (root / "bin", bare.parent, "/usr/bin", "/bin")))
    printed = output(kubectl, "allot", home=tmp_path, PATH=path)
    assert "  kubectl allot explain POD  " in printed
    assert "fits on node" in output(kubectl, "allot", *EXPLAIN, home=tmp_path, PATH=path)
